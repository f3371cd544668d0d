/* Loaded by every page: says that scripts run, and tells when a request of htmx fails. */
"use strict";

document.documentElement.classList.add("scripted");

function notify(text) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => { notice.hidden = true; }, 6000);
}

document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  if (status === 403) notify("This is not allowed for your role, or the page is too old: open it again.");
  else if (status === 400 || status === 422) notify("Not done: the server did not accept it. Open the page again.");
  else notify(`Not done: the server answered ${status}.`);
});

let away = false;
document.addEventListener("htmx:sendError", () => {
  if (!away) notify("The server does not answer. Trying again.");
  away = true;
});
document.addEventListener("htmx:afterOnLoad", () => { away = false; });

// A menu closes by Escape and by a press outside of it.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  const menu = document.querySelector("details.menu[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
});
