/* Forms of corrections: rows move by their buttons, by arrow keys and by pointer, and a text shows its changes as it is
   edited. Without this file the server does the same when a button is pressed. */
"use strict";

(() => {
  const WAIT = 300;

  function remember(list) {
    list.closest("form").querySelector("[data-order]").value = [...list.children].map((row) => row.dataset.sortRow).join(" ");
  }

  function move(button, up) {
    const row = button.closest("[data-sort-row]");
    const beside = up ? row.previousElementSibling : row.nextElementSibling;
    if (!beside) return;
    if (up) beside.before(row);
    else beside.after(row);
    remember(row.parentElement);
    button.focus();  // who moves in the page loses it
    row.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (!button) return;
    event.preventDefault();
    move(button, button.dataset.move === "up");
  });

  document.addEventListener("keydown", (event) => {
    const form = event.target.closest("[data-editor-form]");
    if (!form || event.isComposing) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.querySelector("[name=correct]").click();  // htmx knows buttons by their clicks
    } else if (["ArrowUp", "ArrowDown"].includes(event.key) && event.target.matches("[data-move]")) {
      event.preventDefault();
      move(event.target, event.key === "ArrowUp");
    }
  });

  document.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-drag]");
    if (!handle || event.button !== 0) return;
    event.preventDefault();
    const row = handle.closest("[data-sort-row]");
    const list = row.parentElement;
    const over = new AbortController();
    const middle = (one) => { const box = one.getBoundingClientRect(); return box.top + box.height / 2; };
    row.classList.add("moving");
    // The document listens: a row that moves in the page cannot keep the pointer.
    document.addEventListener("pointermove", ({ clientY }) => {
      const next = [...list.children].find((one) => one !== row && clientY < middle(one)) ?? null;
      if (next !== row.nextElementSibling) list.insertBefore(row, next);
    }, { signal: over.signal });
    for (const end of ["pointerup", "pointercancel"]) {
      document.addEventListener(end, () => {
        over.abort();
        row.classList.remove("moving");
        remember(list);
      }, { signal: over.signal });
    }
  });

  /* Who opens the form starts in it, but where the server says who has the focus. */
  document.addEventListener("toggle", (event) => {
    const editor = event.target;
    if (!editor.matches("[data-editor][open]") || editor.querySelector("[autofocus]")) return;
    const form = editor.querySelector("form");
    if (!form.contains(document.activeElement)) form.querySelector("input:not([type=hidden]), select, textarea, [data-move]")?.focus();
  }, true);

  let soon = 0;
  let asked = 0;
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-diffed]")) return;
    clearTimeout(soon);
    soon = setTimeout(() => compare(target.form), WAIT);
  });

  async function compare(form) {
    const body = new FormData(form);
    body.set("do", "show");
    asked += 1;
    const mine = asked;
    let answer;
    try {
      answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" }, credentials: "same-origin", redirect: "error" });
    } catch {
      return;  // saving says that the server is away; the next change asks again
    }
    if (!answer.ok || mine !== asked) return;
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    form.querySelector("[data-diff]").replaceWith(part.querySelector("[data-diff]"));
  }

  /* A correction that does not fit comes back as its form, with the faults beside their fields. */
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.xhr.status !== 400 || !detail.xhr.getResponseHeader("HX-Retarget")) return;
    detail.shouldSwap = true;
    detail.isError = false;
  });
})();
