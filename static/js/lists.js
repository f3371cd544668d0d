/* Walking a list by keys: j and k go down and up, Enter opens (the row's link has the focus), x chooses for comparing,
   c compares, n begins a new one. What is chosen stands in the address (`picked`), so that filters, other pages of the
   list and the way back from the comparison keep it.

   <tbody data-list>, in each row a link as row header, and perhaps a checkbox; data-list-key="c" on what a key presses.
   Single keys can be turned off in the help (shell.js). */
"use strict";

(() => {
  const STORED = "reckoner-single-keys";
  const links = () => [...document.querySelectorAll("[data-list] tr th a")];

  function step(by) {
    const all = links();
    const row = document.activeElement.closest("[data-list] tr");
    const at = all.findIndex((link) => link.closest("tr") === row);
    const next = all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
    return Boolean(next);
  }

  function choose() {
    const box = document.activeElement.closest("[data-list] tr")?.querySelector("input[type='checkbox']");
    box?.click();
    return Boolean(box);
  }

  function press(key) {
    const target = document.querySelector(`[data-list-key="${key}"]`);
    if (!target?.checkVisibility()) return false;
    target.click();
    return true;
  }

  const boxes = () => [...document.querySelectorAll("#compare input[type='checkbox']")];

  function keepChosen() {
    const chosen = boxes().filter((box) => box.checked).map((box) => box.value);
    const carry = (address) => {
      const url = new URL(address, location.href);
      url.searchParams.delete("picked");
      for (const id of chosen) url.searchParams.append("picked", id);
      return url.href;
    };
    history.replaceState(history.state, "", carry(location.href));
    for (const link of document.querySelectorAll(".pager a")) link.href = carry(link.href);
    const filters = document.querySelector(".filters");
    for (const old of filters?.querySelectorAll("[name='picked']") ?? []) old.remove();
    for (const value of chosen) filters?.append(Object.assign(document.createElement("input"), { type: "hidden", name: "picked", value }));
  }

  document.addEventListener("change", (event) => { if (boxes().includes(event.target)) keepChosen(); });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (event.target.closest("input:not([type='checkbox']), textarea, select, [contenteditable]")) return;
    if (document.querySelector("dialog[open]") || localStorage.getItem(STORED) === "off") return;
    const keys = { j: () => step(1), k: () => step(-1), x: choose, c: () => press("c"), n: () => press("n") };
    if (keys[event.key]?.()) event.preventDefault();
  });
})();
