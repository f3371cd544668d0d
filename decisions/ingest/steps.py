"""Writes steps. An answer means committed; a repeated id is a duplicate or a conflict."""

from __future__ import annotations

import datetime as dt
import functools
import uuid
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from decisions.agents.current import CurrentAgent, find_agents, unknown_agent
from decisions.answer_ids import FORMS
from decisions.errors import Erased
from decisions.ingest.batches import (
    BatchResult,
    as_cost,
    check_id,
    check_moment,
    content_hash,
    prepare_rows,
    write_batch,
)
from decisions.ingest.episodes import Named, find_erased_episodes
from decisions.ingest.step_schemas import StepIn
from decisions.ingest.writer import Row, Table
from decisions.models import Decision
from decisions.models.tombstones import ERASED_HASH
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, NotFound
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7, uuid7_time

STEP_TABLE = Table(
    "decisions_step",
    {
        "id": "uuid",
        "workspace_id": "uuid",
        "episode_id": "uuid",
        "decision_id": "uuid",
        "number": "int4",
        "kind": "text",
        "name": "text",
        "external_id": "text",
        "parent": "text",
        "arguments": "jsonb",
        "result": "jsonb",
        "success": "bool",
        "error": "text",
        "reasoning_type": "text",
        "content": "text",
        "confidence": "float8",
        "insights": "jsonb",
        "issues": "jsonb",
        "model": "text",
        "tokens_in": "int4",
        "tokens_out": "int4",
        "cost": "numeric",
        "started_at": "timestamptz",
        "duration_ms": "float8",
        "attributes": "jsonb",
        "recorded_at": "timestamptz",
        "content_hash": "bytea",
    },
)
AS_GIVEN = (
    *("decision_id", "number", "kind", "name", "external_id", "parent", "arguments", "result", "error"),
    *("reasoning_type", "content", "confidence", "insights", "issues", "model", "tokens_in", "tokens_out"),
    *("duration_ms", "attributes"),
)


def record_steps(*, by: Actor, items: Sequence[tuple[int, StepIn]], since: dt.datetime | None = None) -> BatchResult:
    """Steps of episodes and decisions of this workspace; the decision may still be on the way.

    `since` as in `decisions.ingest.decisions.record_decisions`.
    """
    now = database_now()
    agents = find_agents(by, {item.agent for _, item in items if item.agent is not None})
    found = {
        row[0]: row[1:]
        for row in Decision.objects.filter(
            id__in={item.decision_id for _, item in items if item.decision_id is not None}
        ).values_list("id", "workspace_id", "episode_id", "content_hash")
    }

    # Steps of a decision that is not erased are kept, also when the episode is erased.
    gone = find_erased_episodes(
        by=by, named={name for _, item in items if item.decision_id not in found and (name := _episode(item, agents))}
    )

    def as_row(item: StepIn) -> Row:
        row = _step_row(by, item, agents, found, now, since)
        if item.decision_id not in found and _episode(item, agents) in gone:
            raise Erased.named("episode")
        return row

    return write_batch(STEP_TABLE, items, functools.partial(prepare_rows, as_row), by)


def _episode(item: StepIn, agents: dict[str, CurrentAgent]) -> Named | None:
    current = agents.get(item.agent) if item.agent is not None else None
    return (current.agent.id, item.episode) if current is not None and item.episode is not None else None


def _step_row(
    by: Actor,
    item: StepIn,
    agents: dict[str, CurrentAgent],
    decisions: dict[uuid.UUID, tuple[uuid.UUID, uuid.UUID | None, bytes]],
    now: dt.datetime,
    since: dt.datetime | None,
) -> Row:
    """Gathers every fault of one item. Raises InvalidInput, NotFound or Erased."""
    faults = check_moment(item.started_at, "started_at") + ([] if item.id is UNSET else check_id(item.id, now, since))
    if (item.agent is None) != (item.episode is None):
        missing = "agent" if item.agent is None else "episode"
        faults.append(FieldFault(missing, "is missing", "agent and episode must be given together"))
    elif item.agent is None and item.decision_id is None:
        faults.append(FieldFault("decision_id", "is missing", "decision_id, or agent and episode, or all three"))
    if item.decision_id is not None and uuid7_time(item.decision_id) is None:
        faults.append(FieldFault("decision_id", "is not a uuid7", FORMS))
    if item.agent is not None and item.agent not in agents:
        faults.append(unknown_agent(item.agent))
    if item.error and item.success:
        faults.append(FieldFault("success", "is true although the step has an error", "false, or no error"))
    if faults:
        raise InvalidInput("The step is invalid.", faults=faults)
    unknown = (None, None, b"")
    owner, episode, digest = decisions.get(item.decision_id, unknown) if item.decision_id else unknown
    if owner not in (None, by.workspace.id):
        raise NotFound(
            "Decision not found.",
            faults=[FieldFault("decision_id", "does not exist in this workspace", "an ID in this workspace")],
        )
    if item.decision_id is not None and bytes(digest) == ERASED_HASH:
        raise Erased.of([item.decision_id], field="decision_id")
    row: dict[str, Any] = {name: getattr(item, name) for name in AS_GIVEN}
    started_at = now if item.started_at is UNSET else item.started_at
    return row | {
        "id": uuid7() if item.id is UNSET else item.id,
        "workspace_id": by.workspace.id,
        # A name until resolve_episodes, which asks for these three; without one, its decision's.
        "episode_id": item.episode or episode,
        "agent_id": agents[item.agent].agent.id if item.agent else None,
        "observed_at": started_at,
        "success": False if item.error else item.success,
        "cost": as_cost(item.cost),
        "started_at": started_at,
        "recorded_at": now,
        "content_hash": content_hash(item),
    }
