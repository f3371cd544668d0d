/* Blocks of code: copy, and one of several languages. The choice of a language holds on every page. */
"use strict";

(() => {
  const STORED = "reckoner-code-language";

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const from = document.getElementById(button.dataset.copy);
    const says = button.querySelector("[aria-live]");
    try {
      await navigator.clipboard.writeText(from.textContent.trim());
      button.dataset.copied = "";
      says.textContent = "Copied";
    } catch {
      // No clipboard without HTTPS or permission: select it, so that Ctrl-C copies.
      getSelection().selectAllChildren(from);
      says.textContent = "Selected. Press Ctrl+C to copy.";
    }
    setTimeout(() => { delete button.dataset.copied; says.textContent = ""; }, 2500);
  });

  function choose(box, name, focus = false) {
    const tabs = [...box.querySelectorAll("[role='tab']")];
    const tab = tabs.find((one) => one.dataset.language === name);
    if (!tab) return;
    for (const one of tabs) {
      one.setAttribute("aria-selected", String(one === tab));
      one.tabIndex = one === tab ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = one !== tab;
    }
    if (focus) tab.focus();
  }

  document.addEventListener("click", (event) => {
    const tab = event.target.closest("[data-code-tabs] [role='tab']");
    if (!tab) return;
    localStorage.setItem(STORED, tab.dataset.language);
    for (const box of document.querySelectorAll("[data-code-tabs]")) choose(box, tab.dataset.language);
  });
  document.addEventListener("keydown", (event) => {
    const tab = event.target.closest("[data-code-tabs] [role='tab']");
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!tab || !by) return;
    const box = tab.closest("[data-code-tabs]");
    const tabs = [...box.querySelectorAll("[role='tab']")];
    choose(box, tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length].dataset.language, true);
    event.preventDefault();
  });

  const start = (root) => {
    for (const box of root.querySelectorAll("[data-code-tabs]:not([data-started])")) {
      box.dataset.started = "";
      const chosen = localStorage.getItem(STORED);
      const first = box.querySelector("[role='tab']").dataset.language;
      choose(box, first);
      if (chosen) choose(box, chosen);
    }
  };
  start(document);
  document.addEventListener("htmx:load", (event) => start(event.target.parentElement ?? document));
})();
