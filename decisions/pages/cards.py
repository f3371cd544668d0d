"""Decisions as pages show them, and what a label's form says: for the ledger's own pages and for labelling queues."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from django.http import Http404

from decisions.models import Decision, LabelSuggestion, Verdict
from decisions.queries.decision_shown import ShownDecision, show_decision
from workspaces.errors import FieldFault, InvalidInput
from workspaces.pages import PageRequest

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
    decision = _ledger(request).filter(pk=pk).first()
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
    found = {
        one.decision_id: one for one in LabelSuggestion.objects.filter(decision__in=[c.decision.id for c in cards])
    }
    return [replace(card, suggestion=found.get(card.decision.id)) for card in cards]


def read_label(request: PageRequest, decision: Decision) -> dict[str, Any]:
    """Verdict, corrected action and note of a label's form. `option` is the right option's place in the decision and
    means corrected. Raises InvalidInput."""
    corrected = _option(decision, request.POST.get("option", ""))
    note = request.POST.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise InvalidInput(
            "The note is too long.", faults=[FieldFault("note", f"{len(note)} characters", f"at most {LONGEST_NOTE}")]
        )
    verdict = request.POST.get("verdict") or (Verdict.CORRECTED if corrected is not None else "")
    return {"verdict": verdict, "corrected_action": corrected, "note": note}


def _option(decision: Decision, given: str) -> Any:
    """The option at the place `given`; None where none was given. Raises InvalidInput."""
    if not given:
        return None
    options: Sequence[Any] = decision.options or []
    if not given.isdecimal() or int(given) >= len(options):
        raise InvalidInput(
            "The label is invalid.",
            faults=[FieldFault("option", f"{given!r} is not one of the options", "an option's place")],
        )
    return options[int(given)]
