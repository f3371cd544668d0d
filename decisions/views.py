"""Pages of the ledger: the list of decisions, one decision, and judging by one key.

A decision is shown by `Shown`, made from prefetched rows, so that a list costs the same queries whatever its length.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from decisions.models import Agent, Decision, Feedback, Label, Reward, Verdict
from decisions.prompts import as_text
from decisions.services import label_decision
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages import PageRequest, safe_next, wants_part, workspace_page

PAGE = 25
MAX_KEYS = 9
"""Digits 1 to 9 choose an option. With more options than digits, the likeliest come first."""
HIDDEN = ("content_hash", "token_ids", "logprobs")


@dataclass(frozen=True, slots=True)
class Choice:
    """One option: `index` is its place in the decision, `key` the digit that chooses it, or empty."""

    index: int
    key: str
    text: str
    probability: float | None
    chosen: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A decision with what came of it. `verdict` is the newest label's, else the newest feedback's, else empty."""

    decision: Decision
    choices: tuple[Choice, ...]
    labels: tuple[Label, ...]
    feedback: tuple[Feedback, ...]
    verdict: str
    corrected_action: Any
    rewards: tuple[Reward, ...]

    @property
    def reward(self) -> Reward | None:
        return self.rewards[0] if self.rewards else None

    @property
    def fields(self) -> list[tuple[str, Any]]:
        """The state's fields where it is an object, else nothing."""
        return list(self.decision.state.items()) if isinstance(self.decision.state, dict) else []

    @property
    def summary(self) -> str:
        """The state in one line: its fields' values, without their names."""
        values = [value for _, value in self.fields] or [self.decision.state]
        return " · ".join(as_text(value) for value in values)

    @property
    def few_choices(self) -> bool:
        """Few enough to be offered inside a list's row."""
        return 0 < len(self.choices) <= MAX_KEYS


def show_decision(decision: Decision) -> Shown:
    """Reads prefetched labels, feedback and rewards only."""
    labels = sorted(decision.labels.all(), key=lambda label: label.id, reverse=True)
    verdicts = [entry for entry in decision.feedback.all() if entry.metric == "verdict"]
    verdicts.sort(key=lambda entry: (entry.observed_at, entry.recorded_at, entry.id), reverse=True)
    verdict = labels[0].verdict if labels else str(verdicts[0].value) if verdicts else ""
    corrected = labels[0].corrected_action if labels else None
    rewards = sorted(decision.rewards.all(), key=lambda reward: (reward.spec.number, reward.version), reverse=True)
    feedback = sorted(decision.feedback.all(), key=lambda entry: entry.id, reverse=True)
    return Shown(
        decision, _choices(decision, corrected), tuple(labels), tuple(feedback), verdict, corrected, tuple(rewards)
    )


def _choices(decision: Decision, corrected: Any) -> tuple[Choice, ...]:
    known = {
        str(entry.get("action")): entry.get("probability")
        for entry in decision.alternatives or []
        if isinstance(entry, dict)
    }
    numbered = list(enumerate(decision.options or []))
    if len(numbered) > MAX_KEYS:
        numbered.sort(key=lambda pair: -(known.get(str(pair[1])) or 0.0))
    return tuple(
        Choice(
            index=index,
            key=str(place) if place <= MAX_KEYS else "",
            text=str(option),
            probability=known.get(str(option)),
            chosen=option == decision.action,
            right=option == corrected,
        )
        for place, (index, option) in enumerate(numbered, start=1)
    )


def _ledger(request: PageRequest) -> QuerySet[Decision]:
    found: QuerySet[Decision] = (
        Decision.objects.for_workspace(request.workspace)
        .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
        .prefetch_related("labels__reviewer", "feedback", "rewards__spec")
        .defer(*HIDDEN)
    )
    return found


def _get_decision(request: PageRequest, pk: uuid.UUID) -> Decision:
    decision = _ledger(request).filter(pk=pk).first()
    if decision is None:
        raise Http404("There is no such decision.")
    return decision


def _of_agent(request: PageRequest) -> dict[str, str]:
    """The agent's filter, as it travels through links. An unknown agent finds nothing, which is said."""
    slug = request.GET.get("agent", "")
    return {"agent": slug} if slug else {}


@require_safe
@workspace_page()
def decision_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor: `before` is the id of the last decision on the page before."""
    chosen = _of_agent(request)
    decisions = _ledger(request)
    if chosen:
        decisions = decisions.filter(agent__slug=chosen["agent"])
    before = request.GET.get("before", "")
    if before:
        try:
            decisions = decisions.filter(id__lt=uuid.UUID(before))
        except ValueError as error:
            raise InvalidInput(
                "The place in the list is not usable.", faults=[FieldFault("before", "is not an id", "a decision's id")]
            ) from error
    page = list(decisions.order_by("-id")[: PAGE + 1])
    more = len(page) > PAGE
    page = page[:PAGE]
    context = {
        "rows": [show_decision(decision) for decision in page],
        "agents": Agent.objects.for_workspace(request.workspace).order_by("name"),
        "agent": chosen.get("agent", ""),
        "query": urlencode(chosen),
        "before": before,
        "older": urlencode({**chosen, "before": page[-1].id}) if more else "",
    }
    return render(request, "decisions/_list.html" if wants_part(request) else "decisions/list.html", context)


@require_safe
@workspace_page()
def decision_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    decision = _get_decision(request, pk)
    chosen = _of_agent(request)
    near = Decision.objects.for_workspace(request.workspace)
    if chosen:
        near = near.filter(agent__slug=chosen["agent"])
    context = {
        "shown": show_decision(decision),
        "older": near.filter(id__lt=pk).order_by("-id").values_list("id", flat=True).first(),
        "newer": near.filter(id__gt=pk).order_by("id").values_list("id", flat=True).first(),
        "query": urlencode(chosen),
    }
    return render(request, "decisions/detail.html", context)


@require_POST
@workspace_page(role=Role.LABELLER)
def decision_label(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Confirms or corrects. `option` is the right option's place in the decision; `view` is `row` inside a list."""
    decision = _get_decision(request, pk)
    verdict = request.POST.get("verdict", "")
    corrected = _option(decision, request.POST.get("option", ""))
    # A key pressed twice is one judgement, not two.
    if not _said_before(request, decision, verdict, corrected):
        label_decision(by=request.actor, decision=decision, verdict=verdict, corrected_action=corrected)
        decision = _get_decision(request, pk)
    if wants_part(request):
        part = "decisions/_row.html" if request.POST.get("view") == "row" else "decisions/_judged.html"
        return render(request, part, {"shown": show_decision(decision)})
    messages.success(request, f"Recorded as {verdict}.")
    return redirect(safe_next(request, reverse("pages:decision", args=[request.workspace.slug, pk])))


def _option(decision: Decision, given: str) -> Any:
    """The option at the place `given`; None where none was given. Raises InvalidInput."""
    if not given:
        return None
    options: Sequence[Any] = decision.options or []
    if not given.isdecimal() or int(given) >= len(options):
        raise InvalidInput(
            "The label is not usable.", faults=[FieldFault("option", f"{given!r} was not offered", "an option's place")]
        )
    return options[int(given)]


def _said_before(request: PageRequest, decision: Decision, verdict: str, corrected: Any) -> bool:
    labels = show_decision(decision).labels
    return bool(
        labels
        and labels[0].reviewer_id == request.user.pk
        and labels[0].verdict == verdict
        and labels[0].corrected_action == corrected
        and verdict in Verdict.values
    )
