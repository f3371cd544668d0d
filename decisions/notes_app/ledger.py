"""The ledger in the notes app's shapes: decisions in camelCase with their item and project, by kind of agent.

`decisions.notes_app.api` calls these; the rows are the same as under /api/v1.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from django.db.models import Prefetch

from decisions.agents.kinds import KINDS
from decisions.errors import UnknownAgent
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import fault_of
from decisions.ingest.schemas import DecisionIn
from decisions.models import Agent, Decision, Feedback, Item, Label, Project, Reward, StatusChange
from decisions.models.verdicts import (
    VERDICT,
    WITHDRAWN,
    find_label,
    find_verdict,
    given_at,
    list_current_feedback,
)
from decisions.queries.export import ExportChoice, export_rows
from decisions.queries.lineage import UNUSED, Use, find_uses
from decisions.rewards.pending import calculate_pending
from decisions.rewards.specs import find_specs
from models_registry.models import ModelVersion
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

NAMES = {
    "agent": "agentType",
    "item_ref": "itemId",
    "project_ref": "opusId",
    "user_ref": "userId",
    "policy_name": "modelVersion",
    "next_state": "nextState",
    "alternatives": "alternativeActions",
}
"""Our fields under the app's names, for faults."""


class NotesDecision(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A decision as the notes app sends it. `modelVersion` is the name of an outside model, or one of ours: filer:7."""

    agent_type: str
    state: dict[str, Any]
    action: Any
    model_version: str
    item_id: str | None = None
    opus_id: str | None = None
    user_id: str | None = None
    confidence: float | None = None
    reasoning: str | None = None
    alternative_actions: list[Any] | None = None
    next_state: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Rewarded:
    id: uuid.UUID
    reward: float
    components: dict[str, float]


def agent_of_kind(by: Actor, kind: str) -> Agent:
    """The agent that the app means by a kind: the one called so, else the oldest. Raises UnknownAgent."""
    agents = list(Agent.objects.for_workspace(by.workspace).filter(kind=kind).order_by("created_at", "id"))
    named = [agent for agent in agents if agent.slug == kind.lower()]
    if not agents:
        raise UnknownAgent(f"There is no {kind} agent in this workspace; `manage.py create_notes_agents` creates it.")
    return (named or agents)[0]


def record_notes_decision(*, by: Actor, given: NotesDecision) -> Decision:
    """One decision through the same door as any other. Raises InvalidInput with the app's names of fields."""
    agent = agent_of_kind(by, given.agent_type)
    number = _own_version(agent, given.model_version)
    said = given.action if isinstance(given.action, Mapping) else {}
    fields = {
        "agent": agent.slug,
        "state": given.state,
        "action": given.action,
        "policy_name": given.model_version if number is None else None,
        "model_version": number,
        "confidence": given.confidence if given.confidence is not None else said.get("confidence"),
        "reasoning": given.reasoning if given.reasoning is not None else said.get("reasoning"),
        "alternatives": _alternatives(given.alternative_actions),
        "unit": {"item": given.item_id, "user": given.user_id, "project": given.opus_id}.get(agent.unit) or None,
        "item_ref": given.item_id,
        "project_ref": given.opus_id,
        "user_ref": given.user_id,
        "next_state": given.next_state,
    }
    try:
        item = msgspec.convert(fields, DecisionIn)
    except msgspec.ValidationError as error:
        raise InvalidInput("The decision is invalid.", faults=[_renamed(fault_of(error))]) from error
    outcome = record_decisions(by=by, items=[(0, item)])
    if outcome.errors:
        faults = [_renamed(fault) for fault in outcome.errors[0].faults]
        raise InvalidInput("The decision is invalid.", faults=faults)
    return Decision.objects.get(id=outcome.kept[0].id)


def _renamed(fault: FieldFault) -> FieldFault:
    """`item_ref` as `itemId`, `alternatives[2].action` as `alternativeActions[2].action`."""
    return replace(fault, field=re.sub(r"^\w+", lambda found: NAMES.get(found[0], found[0]), fault.field))


def _own_version(agent: Agent, text: str) -> int | None:
    """The number of a version of the agent's own model, or None for an outside model."""
    name, _, number = text.rpartition(":")
    if agent.registered_model is None or name != agent.registered_model.name:
        return None
    if not (number.isascii() and number.isdecimal()) or len(number) > 9 or str(int(number)) != number:
        return None  # `filer:07` comes back as it was sent, as the name of an outside model
    there = ModelVersion.objects.filter(registered_model=agent.registered_model, number=int(number)).exists()
    return int(number) if there else None


def _alternatives(sent: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Actions, or objects that hold one with its probability, as Alternative takes them."""
    return None if sent is None else [dict(one) if _has_probability(one) else {"action": one} for one in sent]


def _has_probability(alternative: Any) -> bool:
    return (
        isinstance(alternative, Mapping)
        and alternative.keys() == {"action", "probability"}
        and alternative["probability"] is not None
    )


def _sent_alternatives(stored: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    """The inverse of `_alternatives`."""
    return None if stored is None else [one if _has_probability(one) else one["action"] for one in stored]


def list_notes_decisions(*, workspace: Workspace, chosen: ExportChoice) -> list[dict[str, Any]]:
    """The chosen decisions, newest first, as the app reads them."""
    return describe_decisions(workspace, [row.id for row in export_rows(workspace=workspace, chosen=chosen)])


def describe_decisions(workspace: Workspace, ids: Sequence[uuid.UUID]) -> list[dict[str, Any]]:
    """In the order of `ids`; those of another workspace are left out. Ten queries for any number."""
    specs = [spec.id for spec in find_specs(workspace)]
    found = {
        decision.id: decision
        for decision in Decision.objects.for_workspace(workspace)
        .filter(id__in=ids)
        .select_related("agent", "model_version__registered_model")
        .defer("content_hash", "token_ids", "logprobs")
        .prefetch_related(
            "feedback",
            "labels",
            Prefetch("rewards", Reward.objects.filter(spec__in=specs).order_by("-version"), "newest_rewards"),
        )
    }
    items = _by_ref(Item.objects.for_workspace(workspace), {decision.item_ref for decision in found.values()})
    refs = {decision.project_ref for decision in found.values()}
    projects = _by_ref(Project.objects.for_workspace(workspace), refs)
    uses = find_uses(workspace, list(found))
    return [_describe(found[one], items, projects, uses.get(one, UNUSED)) for one in ids if one in found]


def _correction_of(verdict: Feedback | None, label: Label | None) -> Any:
    """As it was sent; what a page or another API made is the right action, or words."""
    if label is None:
        return None if verdict is None else verdict.correction
    sent = (label.correction_sent, label.corrected_action, label.note or None)
    return next((one for one in sent if one is not None), None)


def _by_ref(rows: Any, refs: set[str | None]) -> dict[str, Any]:
    return {row.ref: row for row in rows.filter(ref__in=refs - {None})}


def _describe(decision: Any, items: Mapping[str, Item], projects: Mapping[str, Project], use: Use) -> dict[str, Any]:
    verdict = find_verdict(decision)
    label = find_label(verdict, decision.labels.all())
    measured = [row for row in reversed(list_current_feedback(decision)) if row.metric not in {VERDICT, WITHDRAWN}]
    reward = next(iter(decision.newest_rewards), None)
    setup = KINDS.get(decision.agent.kind)
    return {
        "id": decision.id,
        "agentType": decision.agent.kind,
        "state": decision.state,
        "action": decision.action,
        "nextState": decision.next_state,
        "itemId": decision.item_ref,
        "opusId": decision.project_ref,
        "userId": decision.user_ref,
        "modelVersion": str(decision.model_version) if decision.model_version else decision.policy_name,
        "confidence": decision.confidence,
        "reasoning": decision.reasoning,
        "alternativeActions": _sent_alternatives(decision.alternatives),
        "userFeedback": verdict.value.upper() if verdict is not None else None,
        "userCorrection": _correction_of(verdict, label),
        "feedbackAt": given_at(verdict) if verdict is not None else None,
        "outcomeMetrics": {row.metric: row.value for row in measured} or None,
        "outcomeObservedAt": given_at(measured[-1]) if measured else None,
        "reward": reward.raw if reward is not None else None,
        "rewardComponents": plain_components(reward.components) if reward is not None else None,
        "rewardComputedAt": reward.computed_at if reward is not None else None,
        "usedInTraining": use.in_training,
        "usedInValidation": use.in_validation,
        "trainingRunId": use.run,
        "createdAt": decision.observed_at,
        "item": _thing(decision.item_ref, items, decision.state, setup.item_at if setup else "", ("title", "status")),
        "opus": _thing(decision.project_ref, projects, decision.state, setup.project_at if setup else "", ("name",)),
    }


def _thing(
    ref: str | None, known: Mapping[str, Any], state: Mapping[str, Any], place: str, names: Sequence[str]
) -> dict[str, Any] | None:
    """As reported since, or else as the decision's own state had it; null for a name that neither tells."""
    if ref is None:
        return None
    told = state.get(place)
    told = told if isinstance(told, Mapping) else {}
    row = known.get(ref)
    return {"id": ref} | {name: (getattr(row, name, "") or told.get(name)) or None for name in names}


def plain_components(components: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Name to value; a component that failed says why instead."""
    return {name: one["value"] if "value" in one else {"error": one["error"]} for name, one in components.items()}


def reward_decisions(*, by: Actor, ids: Sequence[uuid.UUID]) -> list[Rewarded]:
    """Those of `ids` that had no reward and have one now. Everything else that waits is calculated on the way."""
    specs = {spec.agent_id: spec for spec in find_specs(by.workspace)}
    agents = dict(Decision.objects.for_workspace(by.workspace).filter(id__in=ids).values_list("id", "agent_id"))
    before = _newest_rewards(agents, [spec.id for spec in specs.values()])
    waiting = {one: agent for one, agent in agents.items() if before.get(one) is None or before[one].raw is None}
    chosen = [specs[agent] for agent in sorted(set(waiting.values())) if agent in specs]
    calculate_pending(chosen)
    after = _newest_rewards(waiting, [spec.id for spec in chosen])
    return [
        Rewarded(one, float(reward.raw), plain_components(reward.components))
        for one in dict.fromkeys(ids)
        if (reward := after.get(one)) is not None and reward.raw is not None
    ]


def _newest_rewards(decisions: Collection[uuid.UUID], specs: Sequence[uuid.UUID]) -> dict[uuid.UUID, Reward]:
    rows = Reward.objects.filter(decision__in=list(decisions), spec__in=specs).order_by("version")
    return {row.decision_id: row for row in rows}


def describe_change(change: StatusChange) -> dict[str, Any]:
    item = change.item
    return {
        "id": change.id,
        "externalId": change.external_id,
        "itemId": item.ref,
        "decisionId": change.decision_id,
        "fromStatus": change.from_status or None,
        "toStatus": change.to_status,
        "userFeedback": change.verdict.upper() or None,
        "userCorrection": change.correction,
        "feedbackAt": change.verdict_at,
        "createdAt": change.observed_at,
        "item": {
            "id": item.ref,
            "title": item.title or None,
            "status": item.status,
            "swimlane": item.swimlane or None,
            "priority": item.priority or None,
            "labels": item.labels,
        },
    }


def find_change(workspace: Workspace, name: str) -> StatusChange | None:
    """By our id, or by the app's own."""
    changes = StatusChange.objects.for_workspace(workspace).select_related("item")
    try:
        found = changes.filter(id=uuid.UUID(name)).first()
    except ValueError:
        found = None
    if found is None and "\0" not in name:  # the database holds no such name
        found = changes.filter(external_id=name).first()
    return found
