"""Recording decisions made elsewhere. An answer means committed; a repeated id is a duplicate or a conflict."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from django.utils import timezone
from msgspec import UNSET

from decisions.agent_rooms import AgentRoom, find_agents, unknown_agent
from decisions.batches import (
    EARLIEST,
    LATEST,
    NEWEST,
    OLDEST,
    Outcome,
    Prepared,
    as_cost,
    check_id,
    check_moment,
    content_hash,
    write_batch,
)
from decisions.ingest.decoding import ItemError
from decisions.ingest.schemas import DecisionIn
from decisions.ingest.writer import Columns, Table
from models_registry.models import ModelVersion
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.ids import is_uuid7_between, uuid7, uuid7_bound

DECISION_TABLE = Table(
    "decisions_decision",
    {
        "id": "uuid",
        "workspace_id": "uuid",
        "agent_id": "uuid",
        "agent_version_id": "uuid",
        "episode_id": "uuid",
        "step_number": "int4",
        "unit": "text",
        "external_id": "text",
        "item_ref": "text",
        "project_ref": "text",
        "user_ref": "text",
        "state": "jsonb",
        "options": "jsonb",
        "action": "jsonb",
        "next_state": "jsonb",
        "completion": "text",
        "confidence": "float8",
        "reasoning": "text",
        "alternatives": "jsonb",
        "propensity": "float8",
        "temperature": "float8",
        "epsilon": "float8",
        "model_version_id": "uuid",
        "policy_name": "text",
        "exposure_id": "uuid",
        "latency_ms": "float8",
        "tokens_in": "int4",
        "tokens_out": "int4",
        "cost": "numeric",
        "observed_at": "timestamptz",
        "recorded_at": "timestamptz",
        "content_hash": "bytea",
    },
)


def record_decisions(
    *, by: Actor, items: Sequence[tuple[int, DecisionIn]], since: dt.datetime | None = None
) -> Outcome:
    """Decisions that were made elsewhere. Bad items are reported, the rest is stored in one transaction.

    Ids may be as old as `since`, which imports of old files give; 400 days without it.
    """
    now = timezone.now()
    rooms = find_agents(by, {item.agent for _, item in items})
    versions = _find_model_versions(by, rooms, items)

    def prepare(some: Sequence[tuple[int, DecisionIn]]) -> Prepared:
        return _prepare_decisions(by, some, rooms, versions, now, since)

    return write_batch(DECISION_TABLE, items, prepare, by)


def _find_model_versions(
    by: Actor, rooms: dict[str, AgentRoom], items: Sequence[tuple[int, DecisionIn]]
) -> dict[tuple[uuid.UUID | None, int], uuid.UUID]:
    numbers = {item.model_version for _, item in items if item.model_version is not None}
    if not numbers:
        return {}
    models = {room.agent.registered_model_id for room in rooms.values()}
    found = ModelVersion.objects.for_workspace(by.workspace).filter(registered_model__in=models, number__in=numbers)
    return {(model, number): row for row, model, number in found.values_list("id", "registered_model_id", "number")}


def _prepare_decisions(
    by: Actor,
    items: Sequence[tuple[int, DecisionIn]],
    rooms: dict[str, AgentRoom],
    versions: dict[tuple[uuid.UUID | None, int], uuid.UUID],
    now: dt.datetime,
    since: dt.datetime | None,
) -> Prepared:
    """Checked one by one, then turned a column at a time: a thousand dictionaries cost more than all the checks."""
    errors: list[ItemError] = []
    places: list[int] = []
    good: list[DecisionIn] = []
    of_agent: list[AgentRoom] = []
    options: list[list[str] | None] = []
    acted: list[uuid.UUID | None] = []
    low, high = uuid7_bound(now - OLDEST if since is None else since).int, uuid7_bound(now + NEWEST).int
    for index, item in items:
        room = rooms.get(item.agent)
        if room is None:
            errors.append(ItemError(index, InvalidInput.code, (unknown_agent(item.agent),)))
            continue
        offered = room.version.options if item.options is None else item.options
        faults: list[FieldFault] = []
        if item.observed_at is not UNSET and not EARLIEST <= item.observed_at <= LATEST:
            faults += check_moment(item.observed_at)
        if item.id is not UNSET and not is_uuid7_between(item.id, low, high):
            faults += check_id(item.id, now, since)
        if item.options is not None and room.version.options not in (None, item.options):
            faults.append(FieldFault("options", "differ from those of the agent's version", "the same, or none"))
        if not room.space.fits_plainly(item.action, offered):
            faults += room.space.faults(item.action, options=offered, state=item.state)
        version_id = None
        if (item.model_version is None) == (item.policy_name is None):
            faults.append(FieldFault("policy_name", "give exactly one of policy_name and model_version", "who acted"))
        elif item.model_version is not None:
            version_id = versions.get((room.agent.registered_model_id, item.model_version))
            if version_id is None:
                told = f"{item.model_version} is not registered"
                faults.append(FieldFault("model_version", told, "a version's number"))
        if faults:
            errors.append(ItemError(index, InvalidInput.code, tuple(faults)))
            continue
        places.append(index)
        good.append(item)
        of_agent.append(room)
        options.append(offered)
        acted.append(version_id)
    columns: Columns = {
        "id": [uuid7() if item.id is UNSET else item.id for item in good],
        "workspace_id": [by.workspace.id] * len(good),
        "agent_id": [room.agent.id for room in of_agent],
        "agent_version_id": [room.version.id for room in of_agent],
        "episode_id": [item.episode for item in good],  # a name until resolve_episodes
        "step_number": [item.step_number for item in good],
        "unit": [item.unit for item in good],
        "external_id": [item.external_id for item in good],
        "item_ref": [item.item_ref or None for item in good],
        "project_ref": [item.project_ref or None for item in good],
        "user_ref": [item.user_ref or None for item in good],
        "state": [item.state for item in good],
        "options": options,
        "action": [item.action for item in good],
        "next_state": [item.next_state or None for item in good],
        "completion": [item.completion for item in good],
        "confidence": [item.confidence for item in good],
        "reasoning": [item.reasoning for item in good],
        "alternatives": [item.alternatives for item in good],
        "propensity": [item.propensity for item in good],
        "temperature": [item.temperature for item in good],
        "epsilon": [item.epsilon for item in good],
        "model_version_id": acted,
        "policy_name": [item.policy_name for item in good],
        "exposure_id": [None] * len(good),
        "latency_ms": [item.latency_ms for item in good],
        "tokens_in": [item.tokens_in for item in good],
        "tokens_out": [item.tokens_out for item in good],
        "cost": [as_cost(item.cost) for item in good],
        "observed_at": [now if item.observed_at is UNSET else item.observed_at for item in good],
        "recorded_at": [now] * len(good),
        "content_hash": [content_hash(item) for item in good],
    }
    return Prepared(places, columns, errors)
