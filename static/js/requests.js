/* Loaded by every page: what htmx does is seen (a line at the top), what fails is said (a toast), and a form is sent once. */
"use strict";

(() => {
  const toasts = () => document.getElementById("toasts");
  const STAYS = 8000;

  function dismissLater(toast) {
    let timer = 0;
    const start = () => { timer = setTimeout(() => toast.remove(), STAYS); };
    const stop = () => clearTimeout(timer);
    // Whoever reads it or has reached its button keeps it (WCAG 2.2.1).
    toast.addEventListener("pointerenter", stop);
    toast.addEventListener("focusin", stop);
    toast.addEventListener("pointerleave", start);
    toast.addEventListener("focusout", start);
    start();
  }

  function notify(text, kind = "error") {
    for (const shown of toasts().querySelectorAll(".toast")) if (shown.querySelector("span").textContent === text) shown.remove();
    const toast = document.getElementById("toast-template").content.firstElementChild.cloneNode(true);
    toast.classList.add(kind);
    toast.querySelector("span").textContent = text;
    toasts().append(toast);
    if (kind !== "error") dismissLater(toast);
  }
  window.notify = notify;

  for (const toast of document.querySelectorAll("#toasts .toast.success, #toasts .toast.info")) dismissLater(toast);
  document.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.closest(".toast")?.remove());

  // Polling has no event that started it; only what a person asked for shows that it is under way.
  let pending = 0;
  const waiting = document.getElementById("waiting");
  let soon = 0;
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!event.detail.requestConfig.triggeringEvent) return;
    event.detail.xhr.asked = true;
    pending += 1;
    clearTimeout(soon);
    soon = setTimeout(() => { waiting.hidden = pending === 0; }, 150);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.xhr.asked) return;
    pending -= 1;
    if (pending === 0) waiting.hidden = true;
  });

  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 403) notify("Your role does not allow this, or the page has expired. Reload the page.");
    else if (status === 400 || status === 422) notify("The server refused the request. Reload the page and try again.");
    else notify(`The request failed: the server answered ${status}.`);
  });

  // A second press while the first is under way would do the same again. What htmx or a script sends is theirs.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
  // A form that was sent asks for nothing more: what it would need, say.
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.dataset?.sent) event.preventDefault(); });
  window.addEventListener("pageshow", () => {  // also by the way back, with the page as it was left
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });

  let away = false;
  document.addEventListener("htmx:sendError", () => {
    if (!away) notify("The server does not answer. Retrying.");
    away = true;
  });
  document.addEventListener("htmx:afterOnLoad", () => { away = false; });
})();
