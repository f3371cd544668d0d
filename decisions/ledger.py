"""Writing decisions and feedback. An answer means committed; a repeated id is a duplicate or a conflict."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import UNSET, UnsetType

from decisions.actions import Space, make_space
from decisions.episodes import ensure_episodes
from decisions.erased_names import FEEDBACK, find_erased
from decisions.errors import Erased, IdConflict, UnknownAgent
from decisions.ingest.decoding import ItemError
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.ingest.writer import Columns, Row, Table, Written, columns_of, is_repeat, keep_places, write_columns
from decisions.models import Agent, AgentVersion, Decision, Episode, Feedback, Verdict
from decisions.outcome_spread import mark_late_decisions
from decisions.tombstones import ERASED_HASH
from models_registry.models import ModelVersion
from workspaces.actors import Actor
from workspaces.asking import ask
from workspaces.errors import FieldFault, InvalidInput, NotFound, ReckonerError
from workspaces.ids import is_uuid7_between, uuid7, uuid7_bound, uuid7_time
from workspaces.row_cache import STAMP, RowCache

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


class Kept(msgspec.Struct, frozen=True, gc=False):
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
class Prepared:
    """Of a batch: the columns of what is usable, with each row's place in the request, and why the rest is not."""

    places: list[int]
    columns: Columns
    errors: list[ItemError]


@dataclass(frozen=True, slots=True)
class AgentRoom:
    """An agent with the version that decisions recorded now belong to, and that version's action space."""

    agent: Agent
    version: AgentVersion
    space: Space


_in_order = msgspec.json.Encoder(order="deterministic").encode


def content_hash(item: Any) -> bytes:
    """SHA-256 of what the client sent, keys in order: equal content under one id is a repeat."""
    return hashlib.sha256(_in_order(item)).digest()


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


_ROOMS: RowCache[AgentRoom] = RowCache()
NEWEST_VERSIONS = f"""
SELECT a.slug, a.id, v.id, {STAMP.format("a")}
  FROM decisions_agent a
 CROSS JOIN LATERAL (SELECT id FROM decisions_agentversion WHERE agent_id = a.id ORDER BY number DESC LIMIT 1) v
 WHERE a.workspace_id = %s AND a.slug = ANY(%s)
"""  # noqa: S608 - names of our own


def find_agents(by: Actor, slugs: Iterable[str]) -> dict[str, AgentRoom]:
    """One query for any number of slugs, two more for those that are new to this process or have changed. Unknown ones
    are left out."""
    asked = ask(NEWEST_VERSIONS, [by.workspace.id, list(slugs)])
    rows = [(slug, agent, version, f"{stamp} {version}") for slug, agent, version, stamp in asked]
    found = {slug: _ROOMS.find(agent, stamp) for slug, agent, _, stamp in rows}
    if unmet := [row for row in rows if found[row[0]] is None]:
        agents = Agent.objects.in_bulk([agent for _, agent, _, _ in unmet])
        versions = AgentVersion.objects.in_bulk([version for _, _, version, _ in unmet])
        for slug, agent, version, stamp in unmet:
            room = AgentRoom(agents[agent], versions[version], space_of(versions[version]))
            _ROOMS.keep(agent, stamp, room)
            found[slug] = room
    return {slug: room for slug, room in found.items() if room is not None}


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

    def prepare(some: Sequence[tuple[int, DecisionIn]]) -> Prepared:
        return _prepare_decisions(by, some, rooms, versions, now, since)

    return write_batch(DECISION_TABLE, items, prepare, by)


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

    return write_batch(FEEDBACK_TABLE, items, functools.partial(prepare_rows, as_row), by)


Prepare = Callable[[Sequence[tuple[int, Any]]], Prepared]


def prepare_rows(as_row: Callable[[Any], Row], items: Sequence[tuple[int, Any]]) -> Prepared:
    """One row after the other. `as_row` raises ReckonerError for what is not usable."""
    places: list[int] = []
    rows: list[Row] = []
    errors: list[ItemError] = []
    for index, item in items:
        try:
            rows.append(as_row(item))
            places.append(index)
        except ReckonerError as error:
            errors.append(ItemError.of(index, error))
    return Prepared(places, columns_of(rows), errors)


def write_batch(table: Table, items: Sequence[tuple[int, Any]], prepare: Prepare, by: Actor) -> Outcome:
    """What is usable of the items, in one transaction; repeats and conflicts told apart."""
    try:
        return _write_batch(table, prepare(items), by)
    except Erased as error:
        # The transaction took back what came along, an episode's name say. Tombstones are rare: the rest goes again.
        gone = {index: item.id for index, item in items if item.id in error.ids}
        if not gone:
            raise
    rest = write_batch(table, [pair for pair in items if pair[0] not in gone], prepare, by)
    erased = [ItemError.of(index, Erased.of([row_id])) for index, row_id in gone.items()]
    return Outcome(rest.kept, sorted([*rest.errors, *erased], key=lambda error: error.index))


def _write_batch(table: Table, prepared: Prepared, by: Actor) -> Outcome:
    places, columns, errors = prepared.places, prepared.columns, list(prepared.errors)
    ids: list[uuid.UUID] = columns.get("id", [])
    if not ids:
        return Outcome([], errors)
    repeats: dict[int, uuid.UUID] = {}
    if len({row_id.int for row_id in ids}) < len(ids):
        first, again, others = _find_doubles(columns)
        errors += [ItemError.of(places[at], _conflict(ids[at])) for at in others]
        repeats = {places[at]: ids[at] for at in again}
        places, columns = [places[at] for at in first], keep_places(columns, first)
        ids = columns["id"]
    try:
        written = _write_once(table, columns, by, repeated=False)
    except IntegrityError as error:
        if not is_repeat(error):
            raise
        written = _write_once(table, columns, by, repeated=True)
    if not (written.duplicates or written.conflicts or repeats):
        return Outcome([Kept(place, row_id, False) for place, row_id in zip(places, ids, strict=True)], errors)
    kept = []
    for place, row_id, known in [
        *((place, row_id, row_id in written.duplicates) for place, row_id in zip(places, ids, strict=True)),
        *((place, row_id, True) for place, row_id in repeats.items()),
    ]:
        if row_id in written.conflicts:
            errors.append(ItemError.of(place, _conflict(row_id)))
        else:
            kept.append(Kept(place, row_id, known))
    return Outcome(sorted(kept, key=lambda one: one.index), sorted(errors, key=lambda error: error.index))


def _find_doubles(columns: Columns) -> tuple[list[int], list[int], list[int]]:
    """Rows by the first of each id, those that repeat it, and those that say something else under it."""
    first: dict[uuid.UUID, int] = {}
    repeats: list[int] = []
    conflicts: list[int] = []
    for at, (row_id, digest) in enumerate(zip(columns["id"], columns["content_hash"], strict=True)):
        earlier = first.setdefault(row_id, at)
        if earlier != at:
            (repeats if columns["content_hash"][earlier] == digest else conflicts).append(at)
    return list(first.values()), repeats, conflicts


def _write_once(table: Table, columns: Columns, by: Actor, *, repeated: bool) -> Written:
    refs = {ref for ref in columns.get("item_ref", ()) if ref}
    if len(columns["id"]) == 1 and not refs and not _names_episodes(columns):
        # One statement is a transaction of its own: BEGIN and COMMIT would be two more questions to the database.
        return write_columns(table, columns, repeated=repeated)
    with transaction.atomic():
        written = write_columns(table, resolve_episodes(by, columns), repeated=repeated)
        mark_late_decisions(by.workspace.id, refs)
    return written


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


def as_cost(given: float | None) -> Decimal | None:
    return None if given is None else Decimal(repr(given)).quantize(COST_GRAIN)


def _names_episodes(columns: Columns) -> bool:
    return "agent_id" in columns and any(isinstance(name, str) for name in columns["episode_id"])


def resolve_episodes(by: Actor, columns: Columns) -> Columns:
    """With ids for the names of episodes, which are made on first sight: three queries for a batch.

    The given columns keep the names: a transaction that is taken back takes what was made with it.
    """
    if not _names_episodes(columns):
        return columns
    found = list(zip(columns["agent_id"], columns["episode_id"], columns["observed_at"], strict=True))
    started = {(agent, name): moment for agent, name, moment in reversed(found) if isinstance(name, str)}
    ids = ensure_episodes(by=by, named=started)
    episodes = [ids[agent, name] if isinstance(name, str) else name for agent, name, _ in found]
    return columns | {"episode_id": episodes}


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
