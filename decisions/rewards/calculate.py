"""Calculates rewards: takes decisions that are due, gathers their facts, values them, and writes what changed.

A component that fails stores its error, and the decision gets no value: a failure is never 0. Any number of processes
may work on one spec at once; each chunk is a transaction of its own, so that a kill loses at most one chunk's work and
leaves its decisions due.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec
from django.db import connection, transaction

from decisions.models import RewardSpec
from decisions.rewards.due import count_due, find_due, mark_due
from decisions.rewards.gathering import Gathered, find_stored, gather_facts
from decisions.rewards.judged import judges_that_count
from decisions.rewards.measuring import ask_again, ask_to_measure
from decisions.rewards.valuing import Plan, Valued, make_plan
from workspaces.storage.clock import database_now

CHUNK = 4000
"""Decisions of one transaction: about half a second."""
MOST_VALUED = 20_000
"""Up to so many decisions that are due are valued to count those whose reward would change."""

_TAKE = """
DELETE FROM decisions_rewarddue WHERE (spec_id, decision_id) IN (
  SELECT spec_id, decision_id FROM decisions_rewarddue
   WHERE spec_id = %s AND decision_id > %s ORDER BY decision_id LIMIT %s FOR UPDATE SKIP LOCKED)
RETURNING decision_id
"""
_OTHERS = "SELECT 1 FROM decisions_rewarddue WHERE spec_id = %s FOR UPDATE"
_COPY = """COPY decisions_reward
  (workspace_id, decision_id, spec_id, version, value, raw, components, feedback_until, computed_at) FROM STDIN"""
_encode = msgspec.json.Encoder().encode
_START = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Calculated:
    """`processed` reward versions were written; `errors` of them hold a component that failed, and have no value."""

    processed: int = 0
    errors: int = 0

    def __add__(self, other: Calculated) -> Calculated:
        return Calculated(self.processed + other.processed, self.errors + other.errors)


@dataclass(frozen=True, slots=True)
class Valuation:
    """What a decision is worth by all that is known now. `version` is that of a new reward; None where the stored one
    says the same, or nothing is known."""

    gathered: Gathered
    valued: Valued
    version: int | None


Step = Callable[[], AbstractContextManager[object]]
"""A transaction for one chunk: `transaction.atomic`, or a job's `fenced`."""


def plan_of(spec: RewardSpec) -> Plan:
    """With the judges that are calibrated now."""
    return make_plan(
        spec.components,
        clamp=spec.clamp,
        low=spec.low,
        high=spec.high,
        unknown=spec.unknown,
        credit=spec.credit,
        discount=spec.discount,
        judges=None if spec.judges is None else judges_that_count(spec.agent, spec.judges),
    )


def calculate_rewards(
    spec: RewardSpec,
    *,
    step: Step = transaction.atomic,
    tell: Callable[[int], None] = lambda done: None,
    share: Callable[[RewardSpec], None] = lambda spec: None,
) -> Calculated:
    """Writes a reward version for each decision of the agent whose reward changed. Running it again changes nothing.

    When it returns, everything that was recorded before the call has been valued, also by others at the same moment;
    what they wrote is not in its sum. `tell` hears after each chunk how many decisions are done; `share`, in the
    transaction that marked what is due, may ask others to help.
    """
    plan = plan_of(spec)
    with step():
        mark_due(spec, plan)
        ask_again(spec)
        share(spec)
    return calculate_due(spec, step=step, tell=tell)


def calculate_due(
    spec: RewardSpec, *, step: Step = transaction.atomic, tell: Callable[[int], None] = lambda done: None
) -> Calculated:
    """As `calculate_rewards`, of what is due already: for workers that share one calculation."""
    plan, total, after, looked_at = plan_of(spec), Calculated(), _START, 0
    while True:
        with step():
            taken = _take(spec, after)
            valuations = list(value_decisions(spec, plan, taken))
            total += _write(spec, [one for one in valuations if one.version is not None])
            ask_to_measure(spec, {one.gathered.decision: one.valued.unmeasured for one in valuations})
        if taken:
            after, looked_at = taken[-1], looked_at + len(taken)
            tell(looked_at)
        elif after != _START:
            after = _START  # what was marked meanwhile, before this place
        else:
            with transaction.atomic(), connection.cursor() as cursor:
                # Waits for those who work on the rest. What one of them left, or marked, is taken in another round.
                cursor.execute(_OTHERS, [spec.id])
                if not cursor.rowcount:
                    return total


def value_decisions(spec: RewardSpec, plan: Plan, decisions: Sequence[uuid.UUID]) -> Iterator[Valuation]:
    """Those of the decisions that are the spec's agent's, beside what is stored of them. Writes nothing."""
    stored = find_stored(spec, decisions)
    for gathered in _facts_of(spec, plan, dict.fromkeys(decisions)):
        valued = plan.value(gathered.facts)
        last = stored.get(gathered.decision)
        version = None
        if last is None:
            # Nothing known is no row; known before and withdrawn since is one, without a value.
            version = 1 if valued.components else None
        elif last.components != valued.components or last.raw != valued.raw:
            version = last.version + 1
        yield Valuation(gathered, valued, version)


def count_pending(spec: RewardSpec) -> int:
    """How many reward versions a calculation would write now. With more than `MOST_VALUED` decisions due it is their
    number: some may turn out unchanged."""
    plan = plan_of(spec)
    due = find_due(spec, plan, most=MOST_VALUED + 1)
    if len(due) > MOST_VALUED:
        return count_due(spec, plan)
    chunks = (due[start : start + CHUNK] for start in range(0, len(due), CHUNK))
    return sum(one.version is not None for chunk in chunks for one in value_decisions(spec, plan, chunk))


def rewards_as_of(spec: RewardSpec, moments: Mapping[uuid.UUID, dt.datetime]) -> dict[uuid.UUID, float]:
    """What each decision was worth by the feedback recorded until its moment; those without a value are left out."""
    return {
        decision: valued.value for decision, valued in values_as_of(spec, moments).items() if valued.value is not None
    }


def values_as_of(spec: RewardSpec, moments: Mapping[uuid.UUID, dt.datetime]) -> dict[uuid.UUID, Valued]:
    """The same with the components, of every decision."""
    plan = plan_of(spec)
    return {gathered.decision: plan.value(gathered.facts) for gathered in _facts_of(spec, plan, moments)}


def _facts_of(spec: RewardSpec, plan: Plan, moments: Mapping[uuid.UUID, dt.datetime | None]) -> Iterator[Gathered]:
    return gather_facts(
        workspace_id=spec.workspace_id,
        agent_id=spec.agent_id,
        groups=plan.reads,
        credited=plan.shares_credit,
        compared=plan.compares,
        judges=plan.judges,
        moments=moments,
        now=database_now(),
    )


def _take(spec: RewardSpec, after: uuid.UUID) -> list[uuid.UUID]:
    """The next decisions that are due and nobody else works on, in the order of their ids."""
    with connection.cursor() as cursor:
        # Until there are statistics of what was just marked, the planner takes it for a few rows: it would read and
        # sort all that is left for each chunk.
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(_TAKE, [spec.id, after, CHUNK])
        taken = sorted(row[0] for row in cursor.fetchall())
        cursor.execute("SET LOCAL enable_sort TO DEFAULT")
    return taken


def _write(spec: RewardSpec, changes: Sequence[Valuation]) -> Calculated:
    if not changes:
        return Calculated()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now = cursor.fetchone()[0]
        with connection.wrap_database_errors, cursor.cursor.copy(_COPY) as copy:
            for change in changes:
                valued = change.valued
                copy.write_row(
                    (
                        spec.workspace_id,
                        change.gathered.decision,
                        spec.id,
                        change.version,
                        valued.value,
                        valued.raw,
                        _encode(valued.components).decode(),
                        change.gathered.until,
                        now,
                    )
                )
    failed = sum(any("error" in part for part in change.valued.components.values()) for change in changes)
    return Calculated(len(changes), failed)
