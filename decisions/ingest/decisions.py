"""Records decisions made elsewhere. An answer means committed; a repeated id is a duplicate or a conflict."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import astuple

from decisions.agents.current import CurrentAgent, find_agents, unknown_agent
from decisions.ingest.batches import (
    EARLIEST,
    LATEST,
    NEWEST,
    OLDEST,
    BatchResult,
    Prepared,
    as_cost,
    check_id,
    check_moment,
    content_hashes,
    has_usable_offset,
    write_batch,
)
from decisions.ingest.decoding import ItemError
from decisions.ingest.schemas import DecisionIn
from decisions.ingest.writer import Columns, Table
from models_registry.models import ModelVersion
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.clock import database_now
from workspaces.storage.ids import is_uuid7_between, uuid7, uuid7_bound

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
        "finish_reason": "text",
        "parameters": "jsonb",
        "confidence": "float8",
        "reasoning": "text",
        "alternatives": "jsonb",
        "propensity": "float8",
        "other_arm_propensity": "float8",
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

AS_GIVEN = DECISION_TABLE.columns.keys() & set(DecisionIn.__struct_fields__)


def record_decisions(
    *, by: Actor, items: Sequence[tuple[int, DecisionIn]], since: dt.datetime | None = None
) -> BatchResult:
    """Decisions that were made elsewhere. Bad items are reported, the rest is stored in one transaction.

    Ids may be as old as `since`, which imports of old files give; 400 days without it.
    """
    now = database_now()
    agents = find_agents(by, {item.agent for _, item in items})
    versions = _find_model_versions(by, agents, items)

    def prepare(some: Sequence[tuple[int, DecisionIn]]) -> Prepared:
        return _prepare_decisions(by, some, agents, versions, now, since)

    return write_batch(DECISION_TABLE, items, prepare, by)


def check_decisions(
    *, by: Actor, items: Sequence[tuple[int, DecisionIn]], since: dt.datetime | None = None
) -> list[ItemError]:
    """What `record_decisions` would refuse of these by their content. Writes nothing and asks for no id: those that are
    taken or erased are only found when they are recorded."""
    agents = find_agents(by, {item.agent for _, item in items})
    versions = _find_model_versions(by, agents, items)
    return _prepare_decisions(by, items, agents, versions, database_now(), since).errors


def _find_model_versions(
    by: Actor, agents: dict[str, CurrentAgent], items: Sequence[tuple[int, DecisionIn]]
) -> dict[tuple[uuid.UUID | None, int], uuid.UUID]:
    numbers = {item.model_version for _, item in items if item.model_version is not None}
    if not numbers:
        return {}
    models = {current.agent.registered_model_id for current in agents.values()}
    found = ModelVersion.objects.for_workspace(by.workspace).filter(registered_model__in=models, number__in=numbers)
    return {(model, number): row for row, model, number in found.values_list("id", "registered_model_id", "number")}


def _prepare_decisions(
    by: Actor,
    items: Sequence[tuple[int, DecisionIn]],
    agents: dict[str, CurrentAgent],
    versions: dict[tuple[uuid.UUID | None, int], uuid.UUID],
    now: dt.datetime,
    since: dt.datetime | None,
) -> Prepared:
    """Checked, then turned a column at a time: a thousand dictionaries cost more than all the checks."""
    errors: list[ItemError] = []
    given = _turn(items)
    span = uuid7_bound(now - OLDEST if since is None else since).int, uuid7_bound(now + NEWEST).int
    if items and not _is_plain(given, agents, span):

        def find_faults(item: DecisionIn) -> list[FieldFault]:
            faults = _find_faults(item, agents, versions)
            if item.id is not UNSET and not is_uuid7_between(item.id, *span):
                faults += check_id(item.id, now, since)
            return faults

        faults = {index: find_faults(item) for index, item in items}
        errors = [ItemError(index, InvalidInput.code, tuple(found)) for index, found in faults.items() if found]
        items = [(index, item) for index, item in items if not faults[index]]
        given = _turn(items)
    if not items:
        return Prepared([], {}, errors)
    of_agent = [agents[slug] for slug in given["agent"]]
    acted = zip(of_agent, given["model_version"], strict=True)
    offered = zip(of_agent, given["options"], strict=True)
    columns: Columns = {
        "id": [uuid7() if row_id is UNSET else row_id for row_id in given["id"]],
        "workspace_id": [by.workspace.id] * len(items),
        "agent_id": [current.agent.id for current in of_agent],
        "agent_version_id": [current.version.id for current in of_agent],
        "episode_id": given["episode"],  # a name until resolve_episodes
        "options": [current.version.options if options is None else options for current, options in offered],
        "model_version_id": [
            None if number is None else versions[current.agent.registered_model_id, number] for current, number in acted
        ],
        "confidence": list(map(_stated_confidence, given["confidence"], given["action"])),
        "exposure_id": [None] * len(items),
        "other_arm_propensity": [None] * len(items),
        "cost": [as_cost(cost) for cost in given["cost"]],
        "observed_at": [now if moment is UNSET else moment for moment in given["observed_at"]],
        "recorded_at": [now] * len(items),
        "content_hash": content_hashes([item for _, item in items]),
    }
    return Prepared([index for index, _ in items], {name: given[name] for name in AS_GIVEN} | columns, errors)


def _stated_confidence(confidence: float | None, action: object) -> float | None:
    """The decision's own, else the one that its action states."""
    if confidence is None and isinstance(action, dict):
        stated = action.get("confidence")
        if isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated <= 1:
            return float(stated)
    return confidence


def _turn(items: Sequence[tuple[int, DecisionIn]]) -> Columns:
    columns = zip(*(astuple(item) for _, item in items), strict=True)
    return dict(zip(DecisionIn.__struct_fields__, columns, strict=bool(items)))


def _is_plain(given: Columns, agents: dict[str, CurrentAgent], span: tuple[int, int]) -> bool:
    """Whether nothing can be wrong with these items, asked of whole columns; most batches are so. False says nothing:
    one agent, its own options, another's policy is all that it knows. Ids lie within `span`."""
    current = agents.get(given["agent"][0])
    count = len(given["agent"])
    if current is None or not given["agent"].count(given["agent"][0]) == given["options"].count(None) == count:
        return False
    if given["model_version"].count(None) < count or None in given["policy_name"]:
        return False
    moments = [moment for moment in given["observed_at"] if moment is not UNSET]
    if moments and not EARLIEST <= min(moments) <= max(moments) <= LATEST:
        return False
    if not all(map(has_usable_offset, moments)):
        return False
    if not all(is_uuid7_between(row_id, *span) for row_id in given["id"] if row_id is not UNSET):
        return False
    return current.space.fits_plainly(given["action"], current.version.options)


def _find_faults(
    item: DecisionIn, agents: dict[str, CurrentAgent], versions: dict[tuple[uuid.UUID | None, int], uuid.UUID]
) -> list[FieldFault]:
    """Of all but its id."""
    current = agents.get(item.agent)
    if current is None:
        return [unknown_agent(item.agent)]
    faults = check_moment(item.observed_at)
    offered = current.version.options if item.options is None else item.options
    if item.options is not None and current.version.options not in (None, item.options):
        faults.append(FieldFault("options", "differ from those of the agent's version", "the same, or none"))
    faults += current.space.faults(item.action, options=offered, state=item.state)
    if (item.model_version is None) == (item.policy_name is None):
        faults.append(FieldFault("policy_name", "give exactly one of policy_name and model_version", "who acted"))
    elif item.model_version is not None and (current.agent.registered_model_id, item.model_version) not in versions:
        told = f"{item.model_version} is not registered"
        faults.append(FieldFault("model_version", told, "a version's number"))
    return faults
