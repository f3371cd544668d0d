/* Loaded in <head> and blocking, so that the first paint already has the theme that was chosen. */
"use strict";

(() => {
  const STORED = "reckoner-theme";
  const root = document.documentElement;
  root.classList.add("scripted");

  function read() {
    try {
      const chosen = localStorage.getItem(STORED);
      return chosen === "light" || chosen === "dark" ? chosen : "system";
    } catch {
      return "system"; // storage is denied: the system decides
    }
  }

  function apply(chosen) {
    if (chosen === "system") delete root.dataset.theme;
    else root.dataset.theme = chosen;
  }

  apply(read());
  window.theme = {
    read,
    choose(chosen) {
      try {
        localStorage.setItem(STORED, chosen);
      } catch {
        // Storage is denied: the choice holds for this page.
      }
      apply(chosen);
      document.dispatchEvent(new Event("themechange"));
    },
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
})();
