"""Costly components: a job measures them, and leaves the result as feedback from code.

A measurement is a fact like any other: it makes its decision due, what-if previews read it, erasure takes it. A
calculation that misses one asks for it here. What is measured how is registered with `measures`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils import timezone

from decisions.models import Feedback, FeedbackSource, MeasurementDue, RewardSpec
from decisions.models.feedback import MEASURED
from decisions.rewards.components import COMPONENTS, ComponentError, Facts, Group
from decisions.rewards.gathering import gather_facts
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.ids import uuid7

MEASURE = "decisions.measure_component"
BATCH = 20
"""Decisions that are measured before their measurements are written."""

_ASK = """
INSERT INTO decisions_measurementdue (workspace_id, component, decision_id)
SELECT %s, asked.* FROM unnest(%s::text[], %s::uuid[]) AS asked(component, decision) ORDER BY 2, 3
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Measurer:
    """`version` goes up when the same facts would be measured differently: everything is then measured again."""

    component: str
    version: int
    reads: frozenset[Group]
    measure: Callable[[Facts], float]


_MEASURERS: dict[str, Measurer] = {}


def measures(
    component: str, *, version: int, reads: frozenset[Group]
) -> Callable[[Callable[[Facts], float]], Callable[[Facts], float]]:
    """Decorator of the function that measures a component from facts of these groups. It raises ComponentError where it
    cannot."""

    def register(measure: Callable[[Facts], float]) -> Callable[[Facts], float]:
        assert COMPONENTS[component].measured, component
        _MEASURERS[component] = Measurer(component, version, reads, measure)
        return measure

    return register


def ask_to_measure(spec: RewardSpec, missing: Mapping[uuid.UUID, Sequence[str]]) -> None:
    """The components that are missing of each decision, and a job for each of them where none waits. In the caller's
    transaction."""
    asked = sorted({(name, decision) for decision, names in missing.items() for name in names if name in _MEASURERS})
    if not asked:
        return
    with connection.cursor() as cursor:
        cursor.execute(_ASK, [spec.workspace_id, [name for name, _ in asked], [decision for _, decision in asked]])
    for component in sorted({name for name, _ in asked}):
        waiting = Job.objects.filter(kind=MEASURE, state=JobState.QUEUED, workspace=spec.workspace)
        if not waiting.filter(payload={"component": component}).exists():
            enqueue_job(kind=MEASURE, workspace=spec.workspace, payload={"component": component})


def measure_due(
    component: str,
    *,
    workspace_id: uuid.UUID,
    step: Callable[[], AbstractContextManager[object]],
    tell: Callable[[int], None] = lambda done: None,
) -> int:
    """Measures what is due of the component in the workspace; returns how many decisions were looked at.

    Nothing is measured inside a transaction; killed, it loses one batch. Two at once may measure the same, and write it
    once.
    """
    measurer, done = _MEASURERS[component], 0
    due = MeasurementDue.objects.filter(workspace_id=workspace_id, component=component).order_by("decision_id")
    while ids := list(due.values_list("decision_id", flat=True)[:BATCH]):
        facts = gather_facts(
            workspace_id=workspace_id,
            agent_id=None,
            groups=measurer.reads,
            moments=dict.fromkeys(ids),
            now=timezone.now(),
        )
        found = {one.decision: _measure(measurer, one.facts) for one in facts}
        with step():
            now = timezone.now()
            Feedback.objects.bulk_create(
                [_as_feedback(measurer, workspace_id, decision, value, now) for decision, value in found.items()],
                ignore_conflicts=True,
            )
            due.filter(decision_id__in=ids).delete()
        done += len(ids)
        tell(done)
    return done


def _measure(measurer: Measurer, facts: Facts) -> dict[str, Any]:
    told: dict[str, Any] = {"version": measurer.version}
    try:
        return told | {"value": measurer.measure(facts)}
    except ComponentError as error:
        return told | {"error": str(error)}


def _as_feedback(
    measurer: Measurer, workspace_id: uuid.UUID, decision: uuid.UUID, value: dict[str, Any], now: dt.datetime
) -> Feedback:
    key = f"measured:{measurer.component}:{measurer.version}"
    return Feedback(
        id=uuid7(),
        workspace_id=workspace_id,
        decision_id=decision,
        metric=MEASURED + measurer.component,
        value=value,
        source=FeedbackSource.CODE,
        observed_at=now,
        recorded_at=now,
        idempotency_key=key,
        content_hash=hashlib.sha256(f"{decision}:{key}:{value}".encode()).digest(),
    )
