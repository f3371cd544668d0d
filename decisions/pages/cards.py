"""Decisions as pages show them, and what a label's form says: for the ledger's own pages and for labelling queues."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from decisions.editors.choice import OPTION
from decisions.editors.corrections import find_correction_faults
from decisions.editors.editor import Form
from decisions.editors.table import case_of, editor_of
from decisions.errors import Erased
from decisions.models import Decision, LabelSuggestion, Verdict
from decisions.queries.decision_shown import ShownDecision, show_decision
from decisions.queries.suggestion_shown import find_suggestions
from workspaces.errors import FieldFault, InvalidInput
from workspaces.pages.guard import PageRequest, View, safe_next, wants_part

AHEAD = 4
"""How many decisions a labelling page holds: the one that is judged, and those that come next."""
LONGEST_NOTE = 2_000
HIDDEN = ("token_ids", "logprobs")


def _ledger(request: PageRequest) -> QuerySet[Decision]:
    found: QuerySet[Decision] = (
        Decision.objects.for_workspace(request.workspace)
        .select_related("agent", "agent_version__agent", "model_version__registered_model", "exposure")
        .prefetch_related("labels__reviewer", "feedback", "rewards__spec")
        .defer(*HIDDEN)
    )
    return found


def get_decision(request: PageRequest, pk: uuid.UUID) -> Decision:
    decision = _ledger(request).select_related("episode").filter(pk=pk).first()
    if decision is None:
        raise Http404("Decision not found.")
    return decision


def show_in_order(request: PageRequest, ids: Iterable[uuid.UUID]) -> list[ShownDecision]:
    """In the order of `ids`."""
    wanted = list(ids)
    found = {decision.id: decision for decision in _ledger(request).filter(id__in=wanted)}
    return [show_decision(found[pk]) for pk in wanted if pk in found]


def make_cards(request: PageRequest, ids: Iterable[uuid.UUID]) -> list[ShownDecision]:
    """Decisions to label, in the order of `ids`, with what the auto-labeler suggests."""
    cards = show_in_order(request, ids)
    found = find_suggestions("decision", [card.decision.id for card in cards])
    return [replace(card, suggestion=found.get(card.decision.id)) for card in cards]


class Editing(Exception):
    """A correction that is not finished: nothing is recorded, and its form is drawn again. `do` is the button that was
    pressed; it is empty where the correction was sent and has faults. `show_editing` answers it."""

    def __init__(self, decision: Decision, form: Form, do: str = "") -> None:
        super().__init__(do)
        self.decision, self.form, self.do = decision, form, do


def read_label(request: PageRequest, decision: Decision) -> dict[str, Any]:
    """Verdict, corrected action and note of a label's form. `option`, the right option's place in the decision, and
    `correct` mean corrected; `suggested` says what the suggestion of this id says. Raises InvalidInput, Erased,
    Editing."""
    note = read_note(request)
    if "suggested" in request.POST:
        return _read_suggestion(decision, request.POST["suggested"]) | {"note": note}
    corrected = _read_correction(request, decision)
    verdict = request.POST.get("verdict") or (Verdict.CORRECTED if corrected is not None else "")
    return {"verdict": verdict, "corrected_action": corrected, "note": note}


def _read_suggestion(decision: Decision, given: str) -> dict[str, Any]:
    """Raises InvalidInput where it is not there any more: the reviewer saw another one."""
    found = LabelSuggestion.objects.filter(decision=decision).exclude(verdict="").first()
    if found is None or str(found.id) != given:
        fault = FieldFault("suggested", "is not there any more", "the suggestion that is shown now")
        raise InvalidInput("The suggestion has changed. Reload the page to see the new one.", faults=[fault])
    corrected = found.action if found.verdict != Verdict.CONFIRMED else None
    return {"verdict": found.verdict, "corrected_action": corrected}


def read_note(request: PageRequest) -> str:
    """Raises InvalidInput."""
    note = request.POST.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise InvalidInput(
            "The note is too long.", faults=[FieldFault("note", f"{len(note)} characters", f"at most {LONGEST_NOTE}")]
        )
    return note


def _read_correction(request: PageRequest, decision: Decision) -> Any:
    """None where the form has none."""
    editor, do = editor_of(decision), request.POST.get("do", "")
    by_form = bool(do) or "correct" in request.POST
    if not (by_form if editor.template else request.POST.get(OPTION)):
        return None
    if decision.is_erased:
        raise Erased.of([decision.id], field="decision_id")
    case = case_of(decision)
    entered = {name: values for name, values in request.POST.lists() if name.startswith("/") or name == OPTION}
    if do and editor.template:
        raise Editing(decision, editor.draw(case, editor.change(case, entered, do)), do)
    draft = editor.read(case, entered)
    faults = list(draft.faults)
    if not faults and draft.action is None:
        faults = [FieldFault("action", "is missing", "the right action")]
    faults = faults or find_correction_faults(decision, draft.action)
    if faults and editor.template:
        raise Editing(decision, editor.draw(case, entered, faults))
    if faults:
        raise InvalidInput("The label is invalid.", faults=faults)
    return draft.action


def show_editing(view: View) -> View:
    """For views that read a label's form. A correction that is not finished is answered with its form alone where a
    script asked, which puts it in the form's place; else with a page of its own."""

    @wraps(view)
    def guarded(request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, **kwargs)
        except Editing as editing:
            return _draw_editing(request, editing)

    return guarded


def _draw_editing(request: PageRequest, editing: Editing) -> HttpResponse:
    decision = editing.decision
    context = {
        "shown": show_decision(decision),
        "form": editing.form,
        "do": editing.do,
        "failed": not editing.do,
        "target": request.path,
        "view": request.POST.get("view", ""),
        "query": request.POST.get("query", ""),
        "next": safe_next(request, reverse("pages:decision", args=[request.workspace.slug, decision.pk])),
        "note": request.POST.get("note", ""),
    }
    template = "decisions/_editor.html" if wants_part(request) else "decisions/correct.html"
    answer = render(request, template, context, status=200 if editing.do else InvalidInput.status)
    answer["HX-Retarget"] = f"#editor-{decision.pk}"
    answer["HX-Reswap"] = "outerHTML"
    return answer
