/* Judging by keyboard: on the list of decisions, on one decision, and while labelling (label.js).

   A key presses the element that says so: data-key="c" in the selected row (or on the page where there are no rows),
   data-digit="3" among the options. shell.js opens the help, where single keys can be turned off (WCAG 2.1.4). A page
   loads this script last: a key heard before label.js runs would send the form as a page of its own. */
"use strict";

(() => {
  const STORED = "reckoner-single-keys";
  let selected = null; // id of the selected row, which outlives its element when htmx swaps it
  let labelled = null; // id of the row that was labelled last: u takes it back
  let advance = false;

  /* Of a list, or the lines of the episode on the card that is shown. */
  const rows = () => [...(card() ?? document).querySelectorAll("[data-row]")];
  const hasRows = () => document.querySelector("[data-rows]") !== null;
  const current = () => (selected && document.getElementById(selected)) || null;
  const card = () => document.querySelector("[data-card]:not([hidden])");
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
    if (!target || target.disabled) return false;
    target.click();
    return true;
  }

  /* The options that digits choose from: an open correction in the row, the armed panel of the page, or the card. */
  function openOptions() {
    if (hasRows()) return current()?.querySelector("details[data-correct][open]") ?? null;
    return card()?.querySelector("[data-digits]") ?? document.querySelector("#label-panel[data-armed] [data-correct]");
  }

  function close() {
    const open = openOptions();
    if (!open) return;
    if (open.tagName === "DETAILS") open.open = false;
    else document.getElementById("label-panel")?.removeAttribute("data-armed");
  }

  /* Where one types: the search of the list, or the options of the decision that is shown. */
  function find() {
    const field = (card() ?? document).querySelector("[data-find-focus]");
    if (!field) return false;
    field.focus();
    field.select();
    return true;
  }

  function note() {
    const within = card() ?? document;
    const box = within.querySelector("[data-editor][open] [data-note]") ?? within.querySelector("[data-note]");
    if (!box) return false;
    box.open = true;
    box.querySelector("textarea").focus();
    return true;
  }

  function undoInList() {
    const row = [current(), labelled && document.getElementById(labelled)].find((one) => one?.querySelector('[data-key="u"]'));
    if (!row) return false;
    select(row);
    return press(row, "u");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && event.target.matches("[data-note] textarea, [data-find-focus], [data-editor-form] *")) {
      const home = event.target.closest("[data-card], #label-panel");
      event.target.blur();
      home?.focus({ preventScroll: true });
      return;
    }
    if (event.target.closest("input, textarea, select, [contenteditable], [data-editor-form]")) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return close();
    if (!enabled()) return;
    let done = false;
    if (/^[1-9]$/.test(event.key)) {
      const option = openOptions()?.querySelector(`[data-digit="${event.key}"]:not(:disabled)`);
      if (option) { option.click(); done = true; }
    } else if (event.key === "/") {
      done = find();
    } else if ((event.key === "j" || event.key === "k") && (hasRows() || rows().length)) {
      step(event.key === "j" ? 1 : -1);
      done = true;
    } else if (hasRows()) {
      if (event.key === "c" || event.key === "x") { if (!current()) step(1); done = press(current() ?? document, event.key); }
      else if (event.key === "u") done = undoInList();
      else if (event.key === "l" || event.key === "b") done = press(document, event.key);
      else if (event.key === "Enter" && event.target === current()) done = press(current(), "Enter");
    } else if (event.key === "Enter") {
      done = event.target === current() && press(current(), "Enter");
    } else if (event.key === "n") {
      done = note();
    } else if (["a", "j", "k", "c", "x", "r", "s", "u", "l", "f"].includes(event.key)) {
      done = press(card() ?? document, event.key) || press(document, event.key) || (event.key === "x" && find());
    }
    if (done) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const arm = event.target.closest("[data-arm]");
    if (!arm) return;
    const panel = document.getElementById("label-panel");
    // Where digits do not reach every option, one types.
    if (panel.toggleAttribute("data-armed")) panel.querySelector("[data-find-option]")?.focus();
  });
  // The options of the last row would open below the window's edge.
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details.correct[open]")) event.target.querySelector("form").scrollIntoView({ block: "nearest" });
  }, true);
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) selected = row.id;
  });

  /* Many options: typing leaves those that hold every word, and Enter takes the first. */
  const words = (text) => text.toLocaleLowerCase().replace(/[_-]/g, " ").split(/\s+/).filter(Boolean);
  function narrow(field) {
    const form = field.closest("form");
    const wanted = words(field.value);
    let found = 0;
    for (const option of form.querySelectorAll("[data-option]")) {
      const has = words(option.querySelector("[data-option-text]").textContent).join(" ");
      option.hidden = !wanted.every((word) => has.includes(word));
      if (!option.hidden) found += 1;
    }
    const more = form.querySelector("[data-more]");
    if (more && wanted.length) more.open = true;
    const none = form.querySelector("[data-no-option]");
    if (none) none.hidden = found > 0;
  }
  document.addEventListener("input", (event) => { if (event.target.matches("[data-find-option]")) narrow(event.target); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("[data-find-option]")) return;
    event.preventDefault(); // or the form's first button would answer
    if (event.isComposing || !event.target.value.trim()) return;
    event.target.closest("form").querySelector("[data-option]:not([hidden]) button:not(:disabled)")?.click();
  });

  /* The filters act when one is chosen; the address holds only those that are set. */
  document.addEventListener("change", (event) => { if (event.target.matches("[data-filters] select")) event.target.form.requestSubmit(); });
  document.addEventListener("search", (event) => { if (event.target.matches("[data-filters] input") && !event.target.value) event.target.form.requestSubmit(); }, true);
  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.target.matches("[data-filters]")) return;
    const { parameters } = event.detail;
    for (const name of Object.keys(parameters)) if (!parameters[name]) delete parameters[name];
  });

  // A labelled row is swapped for its new self: the selection goes on to the next one.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const row = event.target.closest("[data-row]");
    advance = row !== null && !event.target.matches("[data-undo]");
    if (advance) labelled = row.id;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!hasRows()) {
      // The panel was swapped with the focused button in it: keep the reader where they were.
      if (document.activeElement === document.body) document.getElementById("label-panel")?.focus({ preventScroll: true });
      return;
    }
    if (advance && current()) step(1);
    else if (current() && document.activeElement === document.body) select(current());
    advance = false;
  });
})();
