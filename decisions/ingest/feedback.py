"""Records feedback on decisions, episodes and units: early, late, repeated or superseding."""

from __future__ import annotations

import datetime as dt
import functools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.db import connection
from django.db.models import Q
from msgspec import UNSET

from decisions.answer_ids import FORMS
from decisions.editors.corrections import CORRECTING, find_correction_faults
from decisions.erasure.names import FEEDBACK, feedback_name, find_erased
from decisions.errors import Erased, IdConflict
from decisions.ingest.batches import BatchResult, check_id, check_moment, content_hash, prepare_rows, write_batch
from decisions.ingest.schemas import FeedbackIn
from decisions.ingest.writer import Row, Table
from decisions.models import Decision, Episode, Feedback, Verdict
from decisions.models.feedback import MEASURED
from decisions.models.tombstones import ERASED_HASH
from decisions.models.verdicts import VERDICT
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, NotFound
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7, uuid7_time

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
        "correction": "jsonb",
        "source": "text",
        "observed_at": "timestamptz",
        "recorded_at": "timestamptz",
        "idempotency_key": "text",
        "supersedes": "uuid",
        "content_hash": "bytea",
    },
    unique=("decision_id", "episode_id", "unit", "idempotency_key"),
)

# As SQL: most feedback is one item on one decision, and composing this by the ORM costs as much as storing it.
BARRED = """
SELECT id, workspace_id = %s FROM decisions_decision
 WHERE id = ANY(%s) AND (workspace_id <> %s OR content_hash = %s)
"""


OUR_KEYS = ("label:", "withdrawn:", "outcome:", "measured:")
"""What idempotency keys of feedback begin with that labels, ends of items and measuring jobs write. Which verdict
counts depends on them, so no other feedback supersedes it."""


CORRECTION_METRICS = frozenset({"correction", "corrected_action"})
"""Names under which a right action would be kept that nobody learns from."""


def record_feedback(
    *, by: Actor, items: Sequence[tuple[int, FeedbackIn]], since: dt.datetime | None = None, ours: bool = False
) -> BatchResult:
    """Feedback on decisions, episodes or units of this workspace; its decision may still be on the way.

    `since` as in `record_decisions`. `ours`: a service of Reckoner's writes it, and may use `OUR_KEYS`.
    """
    now = database_now()
    barred = _find_targets(by, [item for _, item in items])
    # An erasure also takes feedback on a unit, where a repeat without an id is recognised by its key alone.
    spent = find_erased(by.workspace, FEEDBACK, filter(None, {_erasable_name(item) for _, item in items}))

    def write(some: Sequence[tuple[int, FeedbackIn]], keyed: dict[Key, uuid.UUID]) -> BatchResult:
        def as_row(item: FeedbackIn) -> Row:
            if _erasable_name(item) in spent:
                raise Erased.named("idempotency_key")
            row = _feedback_row(by, item, barred, now, since, ours=ours)
            if item.idempotency_key is not None:
                # A repeat without an id of its own is recognised by its key: it takes the id that the first one got.
                first = keyed.setdefault(_key_of(item), row["id"])
                if item.id is UNSET:
                    row["id"] = first
            return row

        return write_batch(FEEDBACK_TABLE, some, functools.partial(prepare_rows, as_row), by)

    # Hardly any key was met before, so that is asked for only where a row could not be stored.
    outcome = write(items, {})
    conflicts = {error.index for error in outcome.errors if error.code == IdConflict.code}
    again = [(index, item) for index, item in items if index in conflicts and item.idempotency_key is not None]
    if not again:
        return outcome
    second = write(again, _find_keys(by, [item for _, item in again]))
    asked = {index for index, _ in again}
    errors = [error for error in outcome.errors if error.index not in asked]
    return BatchResult(
        sorted([*outcome.kept, *second.kept], key=lambda one: one.index),
        sorted([*errors, *second.errors], key=lambda one: one.index),
    )


Key = tuple[uuid.UUID | None, uuid.UUID | None, str | None, str | None]


def _key_of(item: FeedbackIn) -> Key:
    """An idempotency key is its target's: the decision's, the episode's or the unit's."""
    return item.decision_id, item.episode_id, item.unit, item.idempotency_key


def _erasable_name(item: FeedbackIn) -> str | None:
    """What an erasure of the unit remembers of this feedback's key."""
    if item.unit is None or item.idempotency_key is None:
        return None
    return feedback_name(item.unit, item.idempotency_key)


@dataclass(frozen=True, slots=True)
class _Targets:
    """What feedback is about: ids of another workspace, decisions and episodes of this one that were erased, feedback
    that Reckoner wrote itself, and the decisions that a correction is of."""

    foreign: set[uuid.UUID]
    erased: set[uuid.UUID]
    ours: set[uuid.UUID]
    corrected: Mapping[uuid.UUID, Decision]


def _find_targets(by: Actor, items: Sequence[FeedbackIn]) -> _Targets:
    """Targets that feedback may not have. Decisions that do not exist yet are nobody's."""
    decisions = {item.decision_id for item in items if item.decision_id is not None}
    episodes = {item.episode_id for item in items if item.episode_id is not None}
    superseded = {item.supersedes for item in items if item.supersedes is not None}
    erased: set[uuid.UUID] = set()
    foreign: set[uuid.UUID] = set()
    ours: set[uuid.UUID] = set()
    if decisions:
        with connection.cursor() as cursor:
            cursor.execute(BARRED, [by.workspace.id, list(decisions), by.workspace.id, ERASED_HASH])
            for row, own in cursor.fetchall():
                (erased if own else foreign).add(row)
    if episodes:
        rows = Episode.objects.for_workspace(by.workspace).filter(id__in=episodes).only("id", "external_id")
        there = {row.id: row.is_erased for row in rows}
        foreign |= episodes - set(there)  # an episode is made by what first names it, so it must be there
        erased |= {row for row, gone in there.items() if gone}
    if superseded:
        found = Feedback.objects.for_workspace(by.workspace).filter(id__in=superseded)
        own = dict(found.values_list("id", "idempotency_key"))
        foreign |= superseded - set(own)
        ours = {row for row, key in own.items() if (key or "").startswith(OUR_KEYS)}
    return _Targets(foreign, erased, ours, _find_corrected(by, items))


def _find_corrected(by: Actor, items: Sequence[FeedbackIn]) -> dict[uuid.UUID, Decision]:
    """The decisions that some of the items correct, with what says how their actions may look."""
    ids = {item.decision_id for item in items if item.correction is not None and item.decision_id is not None}
    if not ids:
        return {}
    return Decision.objects.for_workspace(by.workspace).select_related("agent_version").in_bulk(ids)


def _find_keys(by: Actor, items: Sequence[FeedbackIn]) -> dict[Key, uuid.UUID]:
    """Ids of feedback that was recorded under these items' idempotency keys."""
    keyed = [item for item in items if item.idempotency_key is not None]
    if not keyed:
        return {}
    on = {name: {getattr(item, name) for item in keyed} - {None} for name in ("decision_id", "episode_id", "unit")}
    # Each by the index: a million units may use the same key.
    target = (
        Q(decision__in=on["decision_id"])
        | Q(decision__isnull=True, episode__in=on["episode_id"])
        | Q(decision__isnull=True, episode__isnull=True, unit__in=on["unit"])
    )
    found = Feedback.objects.for_workspace(by.workspace).filter(
        target, idempotency_key__in={item.idempotency_key for item in keyed}
    )
    rows = found.values_list("decision_id", "episode_id", "unit", "idempotency_key", "id")
    return {(decision, episode, unit, key): row for decision, episode, unit, key, row in rows}


def _feedback_row(
    by: Actor, item: FeedbackIn, barred: _Targets, now: dt.datetime, since: dt.datetime | None, *, ours: bool
) -> Row:
    faults = check_moment(item.observed_at) + ([] if item.id is UNSET else check_id(item.id, now, since))
    targets = [name for name in ("decision_id", "episode_id", "unit") if getattr(item, name) is not None]
    if len(targets) != 1:
        given = ", ".join(targets) or "none of them"
        faults.append(FieldFault("decision_id", f"{given} given", "exactly one of decision_id, episode_id and unit"))
    if item.decision_id is not None and uuid7_time(item.decision_id) is None:
        faults.append(FieldFault("decision_id", "is not a uuid7", FORMS))
    if item.metric == VERDICT and item.value not in Verdict.values:
        faults.append(FieldFault("value", f"{item.value!r} is not a verdict", "one of " + ", ".join(Verdict.values)))
    if item.metric in CORRECTION_METRICS:
        expected = "the metric verdict with the value corrected, and the right action as correction"
        faults.append(FieldFault("metric", f"{item.metric} is no metric", expected))
    if not ours and item.metric.startswith(MEASURED):
        faults.append(FieldFault("metric", f"begins with {MEASURED}", "another name: Reckoner measures these itself"))
    if not ours and item.idempotency_key is not None and item.idempotency_key.startswith(OUR_KEYS):
        begin = item.idempotency_key.partition(":")[0]
        faults.append(
            FieldFault("idempotency_key", f"begins with {begin}:", "another key: Reckoner writes these itself")
        )
    if not ours and item.supersedes in barred.ours:
        faults.append(
            FieldFault(
                "supersedes", "names feedback that a label or Reckoner wrote", "feedback of an app, or undo the label"
            )
        )
    if item.correction is not None:
        faults += _find_misplaced_correction(item)
    if faults:
        raise InvalidInput("The feedback is invalid.", faults=faults)
    for name in ("decision_id", "episode_id", "supersedes"):
        if getattr(item, name) in barred.foreign:
            raise NotFound(
                f"{name} not found.",
                faults=[FieldFault(name, "does not exist in this workspace", "an ID in this workspace")],
            )
    for name in ("decision_id", "episode_id"):
        if (target := getattr(item, name)) in barred.erased:
            raise Erased.of([target], field=name)
    if item.correction is not None:
        _check_correction(item, barred.corrected)
    return {
        "id": uuid7() if item.id is UNSET else item.id,
        "workspace_id": by.workspace.id,
        "decision_id": item.decision_id,
        "episode_id": item.episode_id,
        "unit": item.unit,
        "metric": item.metric,
        "value": item.value,
        "correction": item.correction,
        "source": item.source,
        "observed_at": now if item.observed_at is UNSET else item.observed_at,
        "recorded_at": now,
        "idempotency_key": item.idempotency_key,
        "supersedes": item.supersedes,
        "content_hash": content_hash(item),
    }


def _find_misplaced_correction(item: FeedbackIn) -> list[FieldFault]:
    """Faults of a correction that need no decision to be seen."""
    if item.metric != VERDICT or item.value not in CORRECTING:
        other = item.value if item.metric == VERDICT else f"the metric {item.metric}"
        return [FieldFault("correction", f"given with {other}", "only with the verdicts corrected and overridden")]
    if item.decision_id is None:
        return [FieldFault("correction", "given without a decision_id", "only for a decision")]
    return []


def _check_correction(item: FeedbackIn, decisions: Mapping[uuid.UUID, Decision]) -> None:
    """Raises InvalidInput. What a correction may be is known once the decision is."""
    assert item.decision_id is not None
    decision = decisions.get(item.decision_id)
    if decision is None:
        reason, expected = "corrects a decision that is not recorded yet", "a recorded decision, or no correction"
        raise InvalidInput("The feedback is invalid.", faults=[FieldFault("decision_id", reason, expected)])
    faults = [
        replace(fault, field=fault.field.replace("action", "correction", 1))
        for fault in find_correction_faults(decision, item.correction)
    ]
    if faults:
        raise InvalidInput("The feedback is invalid.", faults=faults)
