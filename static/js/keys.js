/* Judging by keyboard, on the list of decisions and on one decision.

   A key presses the element that says so: data-key="c" in the selected row (or on the page where there are no rows),
   data-digit="3" among the options. shell.js opens the help, where single keys can be turned off (WCAG 2.1.4). */
"use strict";

(() => {
  const STORED = "reckoner-single-keys";
  let selected = null; // id of the selected row, which outlives its element when htmx swaps it
  let advance = false;

  const rows = () => [...document.querySelectorAll("[data-row]")];
  const hasRows = () => document.querySelector("[data-rows]") !== null;
  const current = () => (selected && document.getElementById(selected)) || null;
  const enabled = () => localStorage.getItem(STORED) !== "off";

  function select(row) {
    if (!row) return;
    selected = row.id;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    close();
    const all = rows();
    const at = all.indexOf(current());
    if (at < 0) return select(all[0]);
    select(all[Math.min(all.length - 1, Math.max(0, at + by))]);
  }

  function press(scope, key) {
    const target = scope.querySelector(`[data-key="${key}"]`);
    if (!target) return false;
    target.click();
    return true;
  }

  /* The options that digits choose from: an open correction in the row, or the armed judgement of the page. */
  function openOptions() {
    if (hasRows()) return current()?.querySelector("details[data-correct][open]") ?? null;
    return document.querySelector("#judgement[data-armed] [data-correct]");
  }

  function close() {
    const open = openOptions();
    if (!open) return;
    if (open.tagName === "DETAILS") open.open = false;
    else document.getElementById("judgement").removeAttribute("data-armed");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return close();
    if (!enabled()) return;
    let done = false;
    if (/^[1-9]$/.test(event.key)) {
      const option = openOptions()?.querySelector(`[data-digit="${event.key}"]:not(:disabled)`);
      if (option) { option.click(); done = true; }
    } else if (hasRows()) {
      if (event.key === "j" || event.key === "k") { step(event.key === "j" ? 1 : -1); done = true; }
      else if (event.key === "c" || event.key === "x") { if (!current()) step(1); done = press(current() ?? document, event.key); }
      else if (event.key === "Enter" && event.target === current()) done = press(current(), "Enter");
    } else if (["j", "k", "c", "x"].includes(event.key)) {
      done = press(document, event.key);
    }
    if (done) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const arm = event.target.closest("[data-arm]");
    if (arm) document.getElementById("judgement").toggleAttribute("data-armed");
  });
  // The options of the last row would open below the window's edge.
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("[data-correct][open]")) event.target.querySelector("form").scrollIntoView({ block: "nearest" });
  }, true);
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) selected = row.id;
  });

  // A judged row is swapped for its new self: the selection goes on to the next one.
  document.addEventListener("htmx:beforeRequest", (event) => {
    advance = event.target.closest("[data-row]") !== null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!hasRows()) {
      // The judgement was swapped with the focused button in it: keep the reader where they were.
      if (document.activeElement === document.body) document.getElementById("judgement")?.focus({ preventScroll: true });
      return;
    }
    if (advance && current()) step(1);
    advance = false;
  });
})();
