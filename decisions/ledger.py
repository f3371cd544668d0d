"""Writing decisions and feedback. An answer means committed; a repeated id is a duplicate or a conflict."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import UNSET, UnsetType

from decisions.actions import Space, make_space
from decisions.episodes import ensure_episodes
from decisions.erased_names import FEEDBACK, find_erased
from decisions.errors import Erased, IdConflict, UnknownAgent
from decisions.ingest.decoding import ItemError
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.ingest.writer import Row, Table, write_rows
from decisions.models import Agent, AgentVersion, Decision, Episode, Feedback, Verdict
from decisions.outcome_spread import mark_late_decisions
from decisions.tombstones import ERASED_HASH
from models_registry.models import ModelVersion
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, NotFound, ReckonerError
from workspaces.ids import uuid7, uuid7_time

OLDEST = dt.timedelta(days=400)
NEWEST = dt.timedelta(hours=1)
# Clients' clocks may be wrong, but a moment that Python cannot read back would poison every list it stands in.
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
COST_GRAIN = Decimal("0.00000001")

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
FEEDBACK_TABLE = Table(
    "decisions_feedback",
    {
        "id": "uuid",
        "workspace_id": "uuid",
        "decision_id": "uuid",
        "episode_id": "uuid",
        "unit": "text",
        "metric": "text",
        "value": "jsonb",
        "source": "text",
        "observed_at": "timestamptz",
        "recorded_at": "timestamptz",
        "idempotency_key": "text",
        "supersedes": "uuid",
        "content_hash": "bytea",
    },
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of item `index`: its id, and whether it was there before with the same content."""

    index: int
    id: uuid.UUID
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a batch: what was kept, and why the rest was not."""

    kept: list[Kept]
    errors: list[ItemError]


@dataclass(frozen=True, slots=True)
class AgentRoom:
    """An agent with the version that decisions recorded now belong to."""

    agent: Agent
    version: AgentVersion


def content_hash(item: Any) -> bytes:
    """SHA-256 of what the client sent, keys in order: equal content under one id is a repeat."""
    return hashlib.sha256(msgspec.json.encode(item, order="deterministic")).digest()


def check_id(given: uuid.UUID, now: dt.datetime, since: dt.datetime | None = None) -> list[FieldFault]:
    """Faults of a client's id: ids order and partition the ledger, so they are uuid7 of about now."""
    moment = uuid7_time(given)
    if moment is None:
        return [FieldFault("id", "is not a uuid7", "a uuid7; other ids go to external_id")]
    oldest = now - OLDEST if since is None else since
    if not oldest <= moment <= now + NEWEST:
        expected = "400 days back to 1 hour ahead" if since is None else f"{since:%Y} to 1 hour ahead"
        return [FieldFault("id", f"its time {moment.isoformat()} is out of range", expected)]
    return []


def check_moment(given: dt.datetime | UnsetType, name: str = "observed_at") -> list[FieldFault]:
    if given is UNSET or EARLIEST <= given <= LATEST:
        return []
    return [FieldFault(name, f"{given.isoformat()} is out of range", f"{EARLIEST:%Y} to {LATEST:%Y}")]


_SPACES: dict[uuid.UUID, Space] = {}
MAX_SPACES = 1024


def space_of(version: AgentVersion) -> Space:
    """The version's action space, compiled once in a process: versions never change."""
    space = _SPACES.get(version.id)
    if space is None:
        if len(_SPACES) >= MAX_SPACES:
            _SPACES.clear()
        space = make_space(version.action_space, version.action_schema, version.state_schema)
        _SPACES[version.id] = space
    return space


# Shared by the threads of a process; each reads it once a call.
_VERSIONS: dict[uuid.UUID, AgentVersion] = {}
NEWEST_VERSIONS = """
SELECT {columns}, v.id
  FROM decisions_agent a
 CROSS JOIN LATERAL (SELECT id FROM decisions_agentversion WHERE agent_id = a.id ORDER BY number DESC LIMIT 1) v
 WHERE a.workspace_id = %s AND a.slug = ANY(%s)
"""


def find_agents(by: Actor, slugs: Iterable[str]) -> dict[str, AgentRoom]:
    """One query for any number of slugs, one more for versions that are new to this process. Unknown ones are left out.

    In SQL, since every decision that is recorded alone asks this. Versions never change, so they are read once.
    """
    names = [field.attname for field in Agent._meta.concrete_fields]
    statement = NEWEST_VERSIONS.format(columns=", ".join(f'a."{name}"' for name in names))
    with connection.cursor() as cursor:
        cursor.execute(statement, [by.workspace.id, list(slugs)])
        found = [(Agent.from_db(connection.alias, names, row[:-1]), row[-1]) for row in cursor.fetchall()]
    versions = {version: _VERSIONS.get(version) for _, version in found}
    if unmet := [version for version, known in versions.items() if known is None]:
        fresh = AgentVersion.objects.in_bulk(unmet)
        if len(_VERSIONS) >= MAX_SPACES:
            _VERSIONS.clear()
        _VERSIONS.update(fresh)
        versions.update(fresh)
    return {agent.slug: AgentRoom(agent, room) for agent, version in found if (room := versions[version]) is not None}


def unknown_agent(slug: str) -> FieldFault:
    return FieldFault("agent", f"{slug!r} is unknown here", "an agent's slug")


def get_agent_room(by: Actor, slug: str) -> AgentRoom:
    """Raises UnknownAgent."""
    room = find_agents(by, [slug]).get(slug)
    if room is None:
        raise UnknownAgent(f"There is no agent {slug!r} with a version in this workspace.")
    return room


def record_decisions(
    *, by: Actor, items: Sequence[tuple[int, DecisionIn]], since: dt.datetime | None = None
) -> Outcome:
    """Decisions that were made elsewhere. Bad items are reported, the rest is stored in one transaction.

    Ids may be as old as `since`, which imports of old files give; 400 days without it.
    """
    now = timezone.now()
    rooms = find_agents(by, {item.agent for _, item in items})
    versions = _find_model_versions(by, rooms, items)

    def as_row(item: DecisionIn) -> Row:
        return _decision_row(by, item, rooms, versions, now, since)

    return write_batch(DECISION_TABLE, items, as_row, by)


def record_feedback(*, by: Actor, items: Sequence[tuple[int, FeedbackIn]], since: dt.datetime | None = None) -> Outcome:
    """Feedback on decisions, episodes or units of this workspace; its decision may still be on the way.

    `since` as in `record_decisions`.
    """
    now = timezone.now()
    barred = _find_targets(by, [item for _, item in items])
    keyed = _find_keys(by, [item for _, item in items])
    # Feedback on a unit is what else an erasure takes: its key is all that a repeat without an id is recognised by.
    spent = find_erased(
        by.workspace, FEEDBACK, {i.idempotency_key for _, i in items if i.unit is not None and i.idempotency_key}
    )

    def as_row(item: FeedbackIn) -> Row:
        if item.unit is not None and item.idempotency_key in spent:
            raise Erased.named("idempotency_key")
        row = _feedback_row(by, item, barred, now, since)
        if item.idempotency_key is not None:
            # A repeat without an id of its own is recognised by its key: it takes the id that the first one got.
            first = keyed.setdefault((item.decision_id, item.idempotency_key), row["id"])
            if item.id is UNSET:
                row["id"] = first
        return row

    return write_batch(FEEDBACK_TABLE, items, as_row, by)


def write_batch(table: Table, items: Sequence[tuple[int, Any]], as_row: Callable[[Any], Row], by: Actor) -> Outcome:
    """Rows of usable items in one transaction, repeats and conflicts told apart. `as_row` raises ReckonerError."""
    try:
        return _write_batch(table, items, as_row, by)
    except Erased as error:
        # The transaction took back what came along, an episode's name say. Tombstones are rare: the rest goes again.
        gone = {index: item.id for index, item in items if item.id in error.ids}
        if not gone:
            raise
    rest = write_batch(table, [pair for pair in items if pair[0] not in gone], as_row, by)
    erased = [ItemError.of(index, Erased.of([row_id])) for index, row_id in gone.items()]
    return Outcome(rest.kept, sorted([*rest.errors, *erased], key=lambda error: error.index))


def _write_batch(table: Table, items: Sequence[tuple[int, Any]], as_row: Callable[[Any], Row], by: Actor) -> Outcome:
    rows: dict[uuid.UUID, Row] = {}
    at: dict[int, uuid.UUID] = {}
    repeats: set[int] = set()
    errors: list[ItemError] = []
    for index, item in items:
        try:
            row = as_row(item)
        except ReckonerError as error:
            errors.append(ItemError.of(index, error))
            continue
        earlier = rows.setdefault(row["id"], row)
        if earlier is not row:
            if earlier["content_hash"] != row["content_hash"]:
                errors.append(ItemError.of(index, _conflict(row["id"])))
                continue
            repeats.add(index)
        at[index] = row["id"]
    with transaction.atomic():
        resolve_episodes(by, rows.values())
        written = write_rows(table, list(rows.values()))
        mark_late_decisions(by.workspace.id, {ref for row in rows.values() if (ref := row.get("item_ref"))})
    kept = []
    for index, row_id in at.items():
        if row_id in written.conflicts:
            errors.append(ItemError.of(index, _conflict(row_id)))
        else:
            kept.append(Kept(index, row_id, row_id in written.duplicates or index in repeats))
    return Outcome(kept, sorted(errors, key=lambda error: error.index))


def _conflict(row_id: uuid.UUID) -> IdConflict:
    message = f"{row_id} was recorded before with other content"
    return IdConflict(message, faults=[FieldFault("id", message, "a fresh id, or the same content")])


def _find_model_versions(
    by: Actor, rooms: dict[str, AgentRoom], items: Sequence[tuple[int, DecisionIn]]
) -> dict[tuple[uuid.UUID | None, int], uuid.UUID]:
    numbers = {item.model_version for _, item in items if item.model_version is not None}
    if not numbers:
        return {}
    models = {room.agent.registered_model_id for room in rooms.values()}
    found = ModelVersion.objects.for_workspace(by.workspace).filter(registered_model__in=models, number__in=numbers)
    return {(model, number): row for row, model, number in found.values_list("id", "registered_model_id", "number")}


def _decision_row(
    by: Actor,
    item: DecisionIn,
    rooms: dict[str, AgentRoom],
    versions: dict[tuple[uuid.UUID | None, int], uuid.UUID],
    now: dt.datetime,
    since: dt.datetime | None,
) -> Row:
    """Gathers every fault of one item. Raises InvalidInput."""
    room = rooms.get(item.agent)
    if room is None:
        raise InvalidInput("The agent is unknown.", faults=[unknown_agent(item.agent)])
    faults = check_moment(item.observed_at) + ([] if item.id is UNSET else check_id(item.id, now, since))
    options = item.options if item.options is not None else room.version.options
    if room.version.options is not None and item.options not in (None, room.version.options):
        faults.append(FieldFault("options", "differ from those of the agent's version", "the same, or none"))
    faults += space_of(room.version).faults(item.action, options=options, state=item.state)
    version_id = None
    if (item.model_version is None) == (item.policy_name is None):
        faults.append(FieldFault("policy_name", "give exactly one of policy_name and model_version", "who acted"))
    elif item.model_version is not None:
        version_id = versions.get((room.agent.registered_model_id, item.model_version))
        if version_id is None:
            faults.append(FieldFault("model_version", f"{item.model_version} is not registered", "a version's number"))
    if faults:
        raise InvalidInput("The decision is not usable.", faults=faults)
    return {
        "id": uuid7() if item.id is UNSET else item.id,
        "workspace_id": by.workspace.id,
        "agent_id": room.agent.id,
        "agent_version_id": room.version.id,
        "episode_id": item.episode,  # a name until resolve_episodes
        "step_number": item.step_number,
        "unit": item.unit,
        "external_id": item.external_id,
        "item_ref": item.item_ref or None,
        "project_ref": item.project_ref or None,
        "user_ref": item.user_ref or None,
        "state": item.state,
        "options": options,
        "action": item.action,
        "next_state": item.next_state or None,
        "completion": item.completion,
        "confidence": item.confidence,
        "reasoning": item.reasoning,
        "alternatives": msgspec.to_builtins(item.alternatives) if item.alternatives is not None else None,
        "propensity": item.propensity,
        "temperature": item.temperature,
        "epsilon": item.epsilon,
        "model_version_id": version_id,
        "policy_name": item.policy_name,
        "exposure_id": None,
        "latency_ms": item.latency_ms,
        "tokens_in": item.tokens_in,
        "tokens_out": item.tokens_out,
        "cost": None if item.cost is None else Decimal(repr(item.cost)).quantize(COST_GRAIN),
        "observed_at": now if item.observed_at is UNSET else item.observed_at,
        "recorded_at": now,
        "content_hash": content_hash(item),
    }


def resolve_episodes(by: Actor, rows: Iterable[Row]) -> None:
    """Turns episode names into rows, made on first sight: three queries for a batch."""
    named = [row for row in rows if isinstance(row.get("episode_id"), str) and "agent_id" in row]
    if not named:
        return
    started = {(row["agent_id"], row["episode_id"]): row["observed_at"] for row in reversed(named)}
    ids = ensure_episodes(by=by, named=started)
    for row in named:
        row["episode_id"] = ids[row["agent_id"], row["episode_id"]]


@dataclass(frozen=True, slots=True)
class _Targets:
    """Of feedback: those of another workspace, and decisions and episodes of this one that were erased."""

    foreign: set[uuid.UUID]
    erased: set[uuid.UUID]


def _find_targets(by: Actor, items: Sequence[FeedbackIn]) -> _Targets:
    """Targets that feedback may not have. Decisions that do not exist yet are nobody's."""
    decisions = {item.decision_id for item in items if item.decision_id is not None}
    episodes = {item.episode_id for item in items if item.episode_id is not None}
    superseded = {item.supersedes for item in items if item.supersedes is not None}
    found = Decision.objects.filter(Q(content_hash=ERASED_HASH) | ~Q(workspace=by.workspace), id__in=decisions)
    owners = dict(found.values_list("id", "workspace_id"))
    erased = {row for row, workspace in owners.items() if workspace == by.workspace.id}
    foreign = set(owners) - erased
    if episodes:
        rows = Episode.objects.for_workspace(by.workspace).filter(id__in=episodes).only("id", "external_id")
        there = {row.id: row.is_erased for row in rows}
        foreign |= episodes - set(there)  # an episode is made by what first names it, so it must be there
        erased |= {row for row, gone in there.items() if gone}
    if superseded:
        own = set(Feedback.objects.for_workspace(by.workspace).filter(id__in=superseded).values_list("id", flat=True))
        foreign |= superseded - own
    return _Targets(foreign, erased)


def _find_keys(by: Actor, items: Sequence[FeedbackIn]) -> dict[tuple[uuid.UUID | None, str], uuid.UUID]:
    """Ids of feedback that was recorded under these items' idempotency keys."""
    keys = {item.idempotency_key for item in items if item.idempotency_key is not None}
    if not keys:
        return {}
    decisions = {item.decision_id for item in items if item.idempotency_key is not None}
    target = Q(decision__in=decisions - {None}) | (Q(decision__isnull=True) if None in decisions else Q(pk__in=[]))
    found = Feedback.objects.for_workspace(by.workspace).filter(target, idempotency_key__in=keys)
    return {(decision, key): row for row, decision, key in found.values_list("id", "decision_id", "idempotency_key")}


def _feedback_row(by: Actor, item: FeedbackIn, barred: _Targets, now: dt.datetime, since: dt.datetime | None) -> Row:
    faults = check_moment(item.observed_at) + ([] if item.id is UNSET else check_id(item.id, now, since))
    targets = [name for name in ("decision_id", "episode_id", "unit") if getattr(item, name) is not None]
    if len(targets) != 1:
        given = ", ".join(targets) or "none of them"
        faults.append(FieldFault("decision_id", f"{given} given", "exactly one of decision_id, episode_id and unit"))
    if item.decision_id is not None and uuid7_time(item.decision_id) is None:
        faults.append(FieldFault("decision_id", "is not a uuid7", "the id of a decision"))
    if item.metric == "verdict" and item.value not in Verdict.values:
        faults.append(FieldFault("value", f"{item.value!r} is not a verdict", "one of " + ", ".join(Verdict.values)))
    if faults:
        raise InvalidInput("The feedback is not usable.", faults=faults)
    for name in ("decision_id", "episode_id", "supersedes"):
        if getattr(item, name) in barred.foreign:
            raise NotFound(f"There is no such {name}.", faults=[FieldFault(name, "is unknown here", "an id of yours")])
    for name in ("decision_id", "episode_id"):
        if (target := getattr(item, name)) in barred.erased:
            raise Erased.of([target], field=name)
    return {
        "id": uuid7() if item.id is UNSET else item.id,
        "workspace_id": by.workspace.id,
        "decision_id": item.decision_id,
        "episode_id": item.episode_id,
        "unit": item.unit,
        "metric": item.metric,
        "value": item.value,
        "source": item.source,
        "observed_at": now if item.observed_at is UNSET else item.observed_at,
        "recorded_at": now,
        "idempotency_key": item.idempotency_key,
        "supersedes": item.supersedes,
        "content_hash": content_hash(item),
    }
