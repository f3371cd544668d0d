"""Costly components: a job measures them, and leaves the result as feedback from code.

A measurement is a fact like any other: it makes its decision due, what-if previews read it, erasure takes it. A
calculation that misses one asks for it here.
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
from django.utils.module_loading import import_string

from decisions.models import Feedback, FeedbackSource, MeasurementDue, RewardSpec
from decisions.models.feedback import MEASURED
from decisions.rewards.components import ComponentError, Facts, Group
from decisions.rewards.gathering import gather_facts
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.ids import uuid7

MEASURE = "decisions.measure_component"
BATCH = 20
"""Decisions whose facts are gathered together."""

_ASK = """
INSERT INTO decisions_measurementdue (workspace_id, component, decision_id)
SELECT %s, asked.* FROM unnest(%s::text[], %s::uuid[]) AS asked(component, decision) ORDER BY 2, 3
ON CONFLICT DO NOTHING
"""


MEASURERS: Mapping[str, str] = {"trace.code_execution": "decisions.rewards.code_execution.MEASURER"}
"""By component, where its Measurer is: what it needs is loaded only where something is measured."""


@dataclass(frozen=True, slots=True)
class Measurer:
    """`measure` gives the value from facts of the groups `reads`, and raises ComponentError where it cannot. Any other
    exception says nothing of the decision: the job fails, and the decision stays due. `version` goes up when the same
    facts would be measured differently."""

    version: int
    reads: frozenset[Group]
    measure: Callable[[Facts], float]


def ask_to_measure(spec: RewardSpec, missing: Mapping[uuid.UUID, Sequence[str]]) -> None:
    """The components that are missing of each decision, and a job for each of them where none waits. In the caller's
    transaction."""
    asked = sorted({(name, decision) for decision, names in missing.items() for name in names if name in MEASURERS})
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

    Nothing is measured inside a transaction; killed, it loses one measurement. Two at once may measure the same, and
    write it once.
    """
    measurer: Measurer = import_string(MEASURERS[component])
    done = 0
    due = MeasurementDue.objects.filter(workspace_id=workspace_id, component=component).order_by("decision_id")
    while ids := list(due.values_list("decision_id", flat=True)[:BATCH]):
        gathered = gather_facts(
            workspace_id=workspace_id,
            agent_id=None,
            groups=measurer.reads,
            moments=dict.fromkeys(ids),
            now=timezone.now(),
        )
        facts = {one.decision: one.facts for one in gathered}
        for decision in ids:
            # A decision that is gone is not measured.
            value = _measure(measurer, facts[decision]) if decision in facts else None
            with step():
                if value is not None:
                    made = _as_feedback(component, workspace_id, decision, value, timezone.now())
                    Feedback.objects.bulk_create([made], ignore_conflicts=True)
                due.filter(decision_id=decision).delete()
            done += 1
            tell(done)
    return done


def _measure(measurer: Measurer, facts: Facts) -> dict[str, Any]:
    told: dict[str, Any] = {"version": measurer.version}
    try:
        return told | {"value": measurer.measure(facts)}
    except ComponentError as error:
        return told | {"error": str(error)}


def _as_feedback(
    component: str, workspace_id: uuid.UUID, decision: uuid.UUID, value: dict[str, Any], now: dt.datetime
) -> Feedback:
    key = f"measured:{component}:{value['version']}"
    return Feedback(
        id=uuid7(),
        workspace_id=workspace_id,
        decision_id=decision,
        metric=MEASURED + component,
        value=value,
        source=FeedbackSource.CODE,
        observed_at=now,
        recorded_at=now,
        idempotency_key=key,
        content_hash=hashlib.sha256(f"{decision}:{key}:{value}".encode()).digest(),
    )
