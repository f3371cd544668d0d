/* Moments in the reader's own time zone. The server writes them in UTC, in the same shape; the whole moment with its
   zone is in the title. Without a script they stay in UTC. */
"use strict";

(() => {
  const at = (moment, options) => new Intl.DateTimeFormat("en-GB", options).format(moment);
  const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const day = (moment) => at(moment, { dateStyle: "short" });

  function localise(root) {
    for (const time of root.querySelectorAll("time[datetime][data-moment]")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      const today = day(moment) === day(new Date());
      time.textContent = today ? at(moment, CLOCK)
        : `${at(moment, { day: "numeric", month: "short", year: "numeric" })}, ${at(moment, { hour: "2-digit", minute: "2-digit" })}`;
      time.title = at(moment, { dateStyle: "long", timeStyle: "long" });
      time.removeAttribute("data-moment");
    }
  }

  document.addEventListener("DOMContentLoaded", () => localise(document));
  document.addEventListener("htmx:load", (event) => localise(event.target.parentNode ?? document));
})();
