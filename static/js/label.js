/* Labelling: one decision after the other. The page holds the next few, so that the one after shows at once while the
   label is on its way; a label that did not arrive brings its decision back. keys.js presses the buttons. */
"use strict";

(() => {
  const room = document.querySelector("[data-labelling]");
  if (!room) return;
  const holder = room.querySelector("[data-cards]");
  const nothing = room.querySelector("[data-nothing-left]");
  const fetching = room.querySelector("[data-fetching]");
  const undo = document.querySelector("[data-undo-last]");
  const undoForm = document.getElementById("undo-form");
  const cards = () => [...holder.querySelectorAll("[data-card]")];
  const sent = []; // labelled cards, the newest last: {card, arrived}
  const given = new Set(); // ids that are labelled, or on their way
  let line = Promise.resolve();
  const waiting = new Set(); // requests whose turn has not come: {address, body}
  const sending = new Set(); // those of them whose label has not arrived

  function show({ focus = true } = {}) {
    const [first, ...later] = cards();
    for (const card of later) card.hidden = true;
    nothing.hidden = Boolean(first) || sending.size > 0;
    fetching.hidden = Boolean(first) || sending.size === 0;
    undo.disabled = sent.length === 0;
    if (!first) return;
    first.hidden = false;
    if (focus) {
      first.focus({ preventScroll: true });
      scrollTo({ top: 0 });
    }
  }

  /* One after the other, in the order in which they were given: the last answer is the newest. */
  function post(address, body) {
    const request = { address, body };
    waiting.add(request);
    const answer = line.then(() => (waiting.delete(request) ? send(address, body) : null));
    line = answer.catch(() => {});
    return answer;
  }

  /* Who leaves has labelled all the same: what waits for its turn goes out now, and outlives the page. */
  addEventListener("pagehide", () => {
    for (const { address, body } of waiting) {
      fetch(address, { method: "POST", body, headers: { "HX-Request": "true" }, credentials: "same-origin", keepalive: true }).catch(() => {});
    }
    waiting.clear();
  });

  async function send(address, body) {
    for (const card of cards()) body.append("have", card.dataset.card);
    for (const id of sending) body.append("sent", id);
    const answer = await fetch(address, { method: "POST", body, headers: { "HX-Request": "true" }, credentials: "same-origin", redirect: "error" });
    const editing = answer.headers.has("HX-Retarget");
    if (!answer.ok && !editing) throw new Error(answer.status === 403 ? "your role does not allow this, or the page has expired" : `the server answered ${answer.status}`);
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (editing) return part.querySelector("[data-editor]");
    room.querySelector("[data-progress]").replaceWith(part.querySelector("[data-progress]"));
    const held = new Set(cards().map((card) => card.dataset.card));
    for (const card of part.querySelectorAll("[data-card]")) {
      if (!held.has(card.dataset.card) && !given.has(card.dataset.card)) holder.append(card);
    }
    return null;
  }

  /* A correction waits for the server, and its decision with it: what does not fit is said beside the fields. */
  async function correct(card, form, body) {
    const id = card.dataset.card;
    sending.add(id);
    try {
      const editor = await post(form.action, body);
      if (editor) {
        card.querySelector("[data-editor]").replaceWith(editor);
        editor.querySelector("[autofocus]")?.focus();
      } else {
        given.add(id);
        sent.push({ card, arrived: Promise.resolve() });
        card.remove();
      }
      sending.delete(id);
      if (!editor) show();
    } catch (error) {
      sending.delete(id);
      notify(`The correction was not saved: ${error.message}.`);
    }
  }

  function clear(card) {
    for (const form of card.querySelectorAll("form")) form.reset();
    for (const box of card.querySelectorAll("[data-note], [data-editor]")) box.open = false;
    for (const option of card.querySelectorAll("[data-option]")) option.hidden = false;
  }

  function back(card) {
    given.delete(card.dataset.card);
    holder.prepend(card);
  }

  holder.addEventListener("submit", async (event) => {
    if (!event.target.matches("[data-label-form]")) return;
    event.preventDefault();
    const card = event.target.closest("[data-card]");
    if (given.has(card.dataset.card) || sending.has(card.dataset.card)) return;
    const body = new FormData(event.target, event.submitter);
    if (event.target.matches("[data-editor-form]")) {
      correct(card, event.target, body);
      return;
    }
    const entry = { card, arrived: null };
    given.add(card.dataset.card);
    sent.push(entry);
    card.remove();
    sending.add(card.dataset.card);
    show();
    entry.arrived = post(event.target.action, body);
    try {
      await entry.arrived;
    } catch (error) {
      sent.splice(sent.indexOf(entry), 1);
      back(card);
      notify(`The label was not saved: ${error.message}. It is shown again.`);
    }
    sending.delete(card.dataset.card);
    const before = document.activeElement?.closest("[data-card]");
    show({ focus: !before || before.hidden });
  });

  undo.addEventListener("click", async () => {
    const entry = sent.pop();
    if (!entry) return;
    try {
      await entry.arrived;
    } catch {
      return; // it never arrived, and has come back by itself
    }
    const body = new FormData(undoForm);
    clear(entry.card);
    back(entry.card);
    for (const one of cards().slice(1)) one.hidden = true;
    show();
    try {
      await post(entry.card.dataset.undoAt, body);
    } catch (error) {
      notify(`The label was not undone: ${error.message}. The label is unchanged.`);
      given.add(entry.card.dataset.card);
      entry.card.remove();
      show();
    }
  });

  show({ focus: false });
})();
