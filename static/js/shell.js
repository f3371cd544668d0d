/* The frame: menus, theme, palette, and the keys that every page has.

   g and a letter    goes to a section (data-go="d" in the sidebar)
   Ctrl or Cmd and K the palette
   ?                 the keys of the page (dialog #keys)
   Single keys can be turned off in that dialog (WCAG 2.1.4). */
"use strict";

(() => {
  const STORED = "reckoner-single-keys";
  const keysOn = () => localStorage.getItem(STORED) !== "off";
  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

  /* Menus close by Escape, by a press outside, and when another opens. */
  const openMenus = () => document.querySelectorAll("details.menu[open]");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  });

  /* The theme. */
  const themes = document.querySelectorAll("[data-theme-choice]");
  const showTheme = () => {
    for (const button of themes) button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme.read()));
  };
  for (const button of themes) {
    button.addEventListener("click", () => { theme.choose(button.dataset.themeChoice); showTheme(); });
  }
  showTheme();

  /* The keys of the page. */
  const keys = document.getElementById("keys");
  const keysBox = document.getElementById("keys-on");
  if (keys) {
    keysBox.checked = keysOn();
    keysBox.addEventListener("change", () => localStorage.setItem(STORED, keysBox.checked ? "on" : "off"));
    document.addEventListener("click", (event) => { if (event.target.closest("[data-key='?']")) keys.showModal(); });
  }

  /* The palette: the links of the sidebar, the page's actions, the account. */
  const palette = document.getElementById("palette");
  const input = palette?.querySelector("input");
  const list = palette?.querySelector("[role='listbox']");
  let found = [];
  let at = 0;

  function commands() {
    const words = (element) => {
      const copy = (element.querySelector("[data-label]") ?? element).cloneNode(true);
      for (const key of copy.querySelectorAll("kbd")) key.remove();
      return copy.textContent;
    };
    const from = (selector, where) => [...document.querySelectorAll(selector)]
      .filter((element) => !element.disabled)
      .map((element) => ({ element, where, label: (element.dataset.command || element.getAttribute("aria-label") || words(element)).trim().replace(/\s+/g, " ") }));
    return [
      ...from(".page-actions a, .page-actions button", "on this page"),
      ...from(".nav a", "go to"),
      ...from("#workspaces a", "workspace"),
      ...from("#account a, #account button", "account"),
      ...from("[data-theme-choice]", "theme"),
    ];
  }

  /* Every letter of the words in order: "exp" and "xpr" both find Experiments. */
  function fits(label, words) {
    let from = 0;
    for (const letter of words) {
      from = label.indexOf(letter, from) + 1;
      if (from === 0) return false;
    }
    return true;
  }

  function show() {
    const words = input.value.toLowerCase().replace(/\s+/g, "");
    const all = commands().filter((command) => fits(command.label.toLowerCase().replace(/\s+/g, ""), words));
    const starts = (command) => command.label.toLowerCase().startsWith(input.value.toLowerCase().trim());
    found = [...all.filter(starts), ...all.filter((command) => !starts(command))];
    at = 0;
    list.replaceChildren(...found.map((command, number) => {
      const item = document.createElement("li");
      item.className = "palette-item";
      item.id = `palette-${number}`;
      item.setAttribute("role", "option");
      const icon = command.element.querySelector("svg.icon")?.cloneNode(true);
      const label = document.createElement("span");
      label.textContent = command.label;
      const where = document.createElement("span");
      where.className = "where";
      where.textContent = command.where;
      item.append(...(icon ? [icon] : []), label, where);
      item.addEventListener("click", () => run(number));
      item.addEventListener("pointermove", () => { if (at !== number) mark(number); });
      return item;
    }));
    palette.querySelector(".palette-none").hidden = found.length > 0;
    list.hidden = found.length === 0;
    mark(0);
  }

  function mark(number) {
    at = Math.max(0, Math.min(found.length - 1, number));
    for (const [position, item] of [...list.children].entries()) item.setAttribute("aria-selected", String(position === at));
    if (found.length) {
      input.setAttribute("aria-activedescendant", `palette-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function run(number) {
    const command = found[number];
    palette.close();
    if (command) command.element.click();
  }

  function openPalette() {
    if (!palette || document.querySelector("dialog[open]")) return;
    document.getElementById("sidebar")?.hidePopover?.();
    input.value = "";
    palette.showModal();
    show();
  }

  if (palette) {
    input.addEventListener("input", show);
    input.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (by) mark(at + by);
      else if (event.key === "Enter") run(at);
      else return;
      event.preventDefault();
    });
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-palette]")) openPalette();
      else if (event.target === palette) palette.close();
    });
  }

  /* A button with data-open opens its dialog; data-notify says something; data-tip is a tooltip beside the name. */
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open).showModal();
    const speaker = event.target.closest("[data-notify]");
    if (speaker) notify(speaker.dataset.notify, "success");
  });
  const tip = document.createElement("div");
  tip.className = "tip-body";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // the control has its name already; this is for eyes
  document.body.append(tip);
  const hideTip = () => { tip.hidden = true; };
  const showTip = (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (!target) return hideTip();
    if (event.type === "focusin" && !target.matches(":focus-visible")) return;
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const at = target.getBoundingClientRect();
    const left = Math.max(4, Math.min(at.left + at.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 4));
    const below = at.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? at.bottom + 6 : at.top - tip.offsetHeight - 6}px`;
  };
  document.addEventListener("pointerover", showTip);
  document.addEventListener("focusin", showTip);
  document.addEventListener("focusout", hideTip);
  document.addEventListener("scroll", hideTip, true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  /* Keys of every page. Pages with keys of their own (keys.js) use other letters. */
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      openPalette();
      if (palette) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?" && keys) {
      keys.showModal();
      event.preventDefault();
    } else if (!keysOn()) {
      return;
    } else if (event.timeStamp - going < 1200 && going) {
      going = 0;
      const target = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (target) {
        // The letter has another meaning on some pages; after g it only goes.
        event.stopImmediatePropagation();
        event.preventDefault();
        target.click();
      }
    } else if (event.key === "g") {
      going = event.timeStamp;
    }
  }, true);
})();
