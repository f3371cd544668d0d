"""Costly components: a job measures them, and leaves the result as feedback from code.

A measurement is a fact like any other: it makes its decision due, what-if previews read it, erasure takes it. A
calculation that misses one asks for it here.

Measurements are only added, numbered, and the newest counts. Each says as `of` which query and response it measured:
when a response comes later, the earlier measurement no longer counts, and the next calculation asks for another.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.module_loading import import_string

from decisions.models import Agent, Feedback, FeedbackSource, MeasurementDue, RewardSpec
from decisions.models.feedback import MEASURED
from decisions.models.tombstones import NOT_ERASED
from decisions.rewards.components import ComponentError, Facts, Group
from decisions.rewards.gathering import Gathered, gather_facts
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7

MEASURE = "decisions.measure_component"
BATCH = 20
"""Decisions whose facts are gathered together, at least."""

_ASK = """
INSERT INTO decisions_measurementdue (workspace_id, component, decision_id)
SELECT %s, asked.* FROM unnest(%s::text[], %s::uuid[]) AS asked(component, decision) ORDER BY 2, 3
ON CONFLICT DO NOTHING
"""
_MARK_NEWEST = f"""
INSERT INTO decisions_measurementdue (workspace_id, component, decision_id)
SELECT %(workspace)s, %(component)s, newest.id
  FROM (SELECT d.id FROM decisions_decision d WHERE d.agent_id = %(agent)s AND d.{NOT_ERASED}
         ORDER BY d.id DESC LIMIT %(most)s) newest
 ORDER BY 3
ON CONFLICT DO NOTHING
"""  # noqa: S608 - names of our own
_FORGET = """
DELETE FROM decisions_measurementdue m USING decisions_decision d
 WHERE m.component = %(component)s AND d.id = m.decision_id AND d.agent_id = %(agent)s
"""

MEASURERS: Mapping[str, str] = {
    "trace.code_execution": "decisions.rewards.code_execution.MEASURER",
    "trace.learned": "decisions.rewards.learned.MEASURER",
}
"""By component, where its Measurer is: what it needs is loaded only where something is measured."""
Step = Callable[[], AbstractContextManager[object]]


class NotYet(Exception):
    """Nothing of this agent can be measured yet; the message says why. Its decisions stay unmeasured."""


@dataclass(frozen=True, slots=True)
class Begun:
    """`measure` gives the value from facts of the groups that the Measurer reads, or None where there is nothing to
    measure yet, and raises ComponentError where it cannot. Any other exception says nothing of the decision: the job
    fails, and the decision stays due. `remembers` stands in each measurement; one that says otherwise is outdated."""

    measure: Callable[[Gathered], float | None]
    remembers: Mapping[str, Any] = field(default_factory=dict)


def by_facts(measure: Callable[[Facts], float | None]) -> Callable[[Agent, Step], Begun]:
    """`begin` of a Measurer that needs nothing but the facts."""

    def begin(agent: Agent, step: Step) -> Begun:
        return Begun(lambda one: measure(one.facts))

    return begin


def _never(agent: Agent) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Measurer:
    """`begin` is called once in a job for each agent, outside a transaction; it raises NotYet. `version` goes up when
    the same facts would be measured differently. `is_outdated`: of measurers that learn, whether the agent's decisions
    are worth measuring again. `at_once`: decisions that are measured together, and lost together by a kill."""

    version: int
    reads: frozenset[Group]
    begin: Callable[[Agent, Step], Begun]
    is_outdated: Callable[[Agent], bool] = _never
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """`decisions` were looked at. `refused`: why nothing was measured of an agent, by its slug."""

    decisions: int
    refused: Mapping[str, str]


def ask_to_measure(spec: RewardSpec, missing: Mapping[uuid.UUID, Sequence[str]]) -> None:
    """The components that are missing of each decision, and a job for each of them where none waits. In the caller's
    transaction."""
    asked = sorted({(name, decision) for decision, names in missing.items() for name in names if name in MEASURERS})
    if not asked:
        return
    with connection.cursor() as cursor:
        cursor.execute(_ASK, [spec.workspace_id, [name for name, _ in asked], [decision for _, decision in asked]])
    _queue(spec.workspace, {name for name, _ in asked})


def ask_again(spec: RewardSpec) -> None:
    """A job for each component of the spec whose measurer has more to learn from than it had. In the caller's
    transaction."""
    outdated = set()
    for name in (told["name"] for told in spec.components if told["name"] in MEASURERS):
        measurer: Measurer = import_string(MEASURERS[name])
        if measurer.is_outdated(spec.agent):
            mark_newest(spec.agent, name, most=1)  # one decision makes the job begin; then it marks the others
            outdated.add(name)
    _queue(spec.workspace, outdated)


def mark_newest(agent: Agent, component: str, *, most: int) -> None:
    """The agent's newest decisions are to be measured."""
    known: dict[str, Any] = {"workspace": agent.workspace_id, "component": component, "agent": agent.id, "most": most}
    with connection.cursor() as cursor:
        cursor.execute(_MARK_NEWEST, known)


def _queue(workspace: Workspace, components: Iterable[str]) -> None:
    for component in sorted(components):
        waiting = Job.objects.filter(kind=MEASURE, state=JobState.QUEUED, workspace=workspace)
        if not waiting.filter(payload={"component": component}).exists():
            enqueue_job(kind=MEASURE, workspace=workspace, payload={"component": component})


def measure_due(
    component: str, *, workspace_id: uuid.UUID, step: Step, tell: Callable[[int], None] = lambda done: None
) -> Measured:
    """Measures what is due of the component in the workspace.

    Nothing is measured inside a transaction. Two jobs at once may measure the same, and write it once.
    """
    measurer: Measurer = import_string(MEASURERS[component])
    begun: dict[uuid.UUID, Begun | NotYet] = {}
    refused: dict[str, str] = {}
    done = 0
    due = MeasurementDue.objects.filter(workspace_id=workspace_id, component=component).order_by("decision_id")
    while ids := list(due.values_list("decision_id", flat=True)[: max(BATCH, measurer.at_once)]):
        gathered = gather_facts(
            workspace_id=workspace_id,
            agent_id=None,
            groups=measurer.reads,
            moments=dict.fromkeys(ids),
            now=timezone.now(),
        )
        facts = {one.decision: one for one in gathered}
        for agent in Agent.objects.in_bulk({one.agent for one in facts.values()} - begun.keys()).values():
            try:
                begun[agent.id] = measurer.begin(agent, step)
            except NotYet as error:
                begun[agent.id], refused[agent.slug] = error, str(error)
                with step(), connection.cursor() as cursor:
                    cursor.execute(_FORGET, {"component": component, "agent": agent.id})
        for start in range(0, len(ids), measurer.at_once):
            together = ids[start : start + measurer.at_once]
            # A decision that is gone is not measured.
            found = [facts[decision] for decision in together if decision in facts]
            values = [(one, _measure(component, measurer, begun[one.agent], one)) for one in found]
            now = timezone.now()
            made = [_as_feedback(component, workspace_id, one.decision, value, now) for one, value in values if value]
            with step():
                Feedback.objects.bulk_create(made, ignore_conflicts=True)
                due.filter(decision_id__in=together).delete()
            done += len(together)
            tell(done)
    return Measured(done, refused)


def _measure(component: str, measurer: Measurer, begun: Begun | NotYet, one: Gathered) -> dict[str, Any] | None:
    """None where there is nothing to measure, or the newest measurement says what another one would."""
    if isinstance(begun, NotYet):
        return None
    told: dict[str, Any] = {"version": measurer.version, **begun.remembers}
    if one.facts.trace is not None:
        told["of"] = one.facts.trace.fingerprint
    last = one.facts.measures.get(MEASURED + component)
    known: Mapping[str, Any] = last if isinstance(last, Mapping) else {}
    # Those of earlier releases do not say what they are of.
    if known and all(known.get(name, value if name == "of" else None) == value for name, value in told.items()):
        return None
    told["number"] = int(known.get("number", 1)) + 1 if known else 1
    try:
        value = begun.measure(one)
    except ComponentError as error:
        return told | {"error": str(error)}
    return None if value is None else told | {"value": value}


def _as_feedback(
    component: str, workspace_id: uuid.UUID, decision: uuid.UUID, value: Mapping[str, Any], now: dt.datetime
) -> Feedback:
    key = f"measured:{component}:{value['number']}"
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
