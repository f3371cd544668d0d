"""A shadow's figures from its newest answers: how often the candidate agrees with what was done, what it would earn.

Of choices and rankings the estimate is that of the gate by the log (`training.evaluation.log_gate`). Of what is written
no propensity is known: the rewards of both actions are compared, where a reward can be calculated from an action alone.
`training.shadows.rounds` calls it.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db import connection

from decisions.agents.current import find_current_version
from decisions.gateway.choosing import policy_of
from decisions.gateway.ways import WRITING, way_of
from decisions.models import AgentVersion, RewardSpec, Shadow
from decisions.models.tombstones import NOT_ERASED
from decisions.rewards.specs import current_reward_spec
from models_registry.statistics.intervals import Interval, share_interval
from training.evaluation.log_gate import ROWS, Made, estimate_at
from training.evaluation.off_policy import MIN_EXPLORATION, OffPolicyGate, compare_with_own
from training.rows.reward_scale import training_scale
from training.rows.selection import loaded
from training.shadows.rule import MAX_FAILED_SHARE
from training.shadows.valuing import list_needs, value_both

_ANSWERS = f"""
SELECT a.decision_id, a.place, a.places, a.probabilities, a.pick, a.agrees, a.tau,
       coalesce(nullif(d.unit, ''), d.episode_id::text, d.id::text), d.propensity,
       CASE WHEN v.exploration_budget IS NULL THEN d.epsilon END,
       d.model_version_id, d.policy_name, r.raw
  FROM decisions_shadowanswer a
  JOIN decisions_decision d ON d.id = a.decision_id
  JOIN decisions_agentversion v ON v.id = d.agent_version_id
  LEFT JOIN LATERAL (
    SELECT value, raw FROM decisions_reward
     WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1
  ) r ON r.value IS NOT NULL
 WHERE a.shadow_id = %(shadow)s AND a.error = '' AND (a.probabilities IS NULL) = %(written)s AND d.{NOT_ERASED}
 ORDER BY a.id DESC
 LIMIT %(rows)s
"""  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its decision as they were read. `places` of what was done among the options, and the candidate's
    probabilities as `thought`; no `epsilon` under an exploration budget, which leaves enough of it only where the model
    was unsure; of what is written there are neither, and `pick` is the candidate's own."""

    decision: uuid.UUID
    places: tuple[int, ...]
    thought: tuple[float, ...]
    pick: Any
    agrees: bool
    tau: float | None
    group: str
    propensity: float | None
    epsilon: float | None
    version: uuid.UUID | None
    policy: str | None
    raw: float | None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """An answered decision whose reward, propensity and exploration are known; as
    `training.evaluation.log_gate.Acted`."""

    places: tuple[int, ...]
    thought: tuple[float, ...]
    group: str
    propensity: float
    epsilon: float
    reward: float
    version: uuid.UUID | None
    policy: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """agreement: the share of answers that are what was done, of rankings those with the same item first; None without
    answers. tau: the mean of Kendall's τ, of rankings. gate: the estimate over `rows`; None without any. untold: why
    there can be no estimate, a sentence; "" where there can."""

    agreement: Interval | None
    tau: float | None
    rows: tuple[Made, ...]
    gate: OffPolicyGate | None
    untold: str = ""


def measure_shadow(shadow: Shadow) -> Figures:
    """Over the newest `ROWS` answers to what the agent's current version chooses, ranks or writes. The candidate would
    act with that version's temperature and ε, within its budget."""
    agent = shadow.agent
    spec = current_reward_spec(agent)
    acts = find_current_version(agent)
    assert acts is not None, "an agent that decided has a version"
    written = is_written(acts)
    answers = list(_read(shadow, spec, written))
    agreement = share_interval([one.agrees for one in answers], [one.group for one in answers]) if answers else None
    taus = [one.tau for one in answers if one.tau is not None]
    tau = math.fsum(taus) / len(taus) if taus else None
    if written:
        if untold := find_untold(spec):
            return Figures(agreement, tau, (), None, untold)
        return Figures(agreement, tau, *_compare(answers, spec))
    rows = tuple(_find_rewarded(answers, spec))
    return Figures(agreement, tau, rows, estimate(rows, acts) if rows else None)


def is_written(version: AgentVersion) -> bool:
    """Whether its actions are texts, tool calls or JSON that no schema enumerates."""
    return way_of(version) is WRITING


def find_untold(spec: RewardSpec) -> str:
    """Why nothing tells what written answers of a candidate would earn, a sentence; "" where something does."""
    needs = list_needs(spec)
    if not needs:
        return ""
    them, need = ("component", "needs") if len(needs) == 1 else ("components", "need")
    return (
        f"The difference in reward is not estimated, because the reward's {them} {' and '.join(needs)} {need} more than"
        " the answer itself, and the propensity of written actions is not known."
    )


def estimate(rows: Sequence[Rewarded], acts: AgentVersion) -> OffPolicyGate:
    thoughts = [np.array(row.thought) for row in rows]
    policies = [np.array(policy_of(acts, row.thought)) for row in rows]
    return estimate_at(rows, [row.places for row in rows], thoughts, policies)


def _find_rewarded(answers: Sequence[Answer], spec: RewardSpec) -> Iterator[Rewarded]:
    for one in answers:
        if one.raw is None or one.propensity is None or one.epsilon is None or one.epsilon < MIN_EXPLORATION:
            continue
        reward = training_scale(spec, one.raw)
        yield Rewarded(one.places, one.thought, one.group, one.propensity, one.epsilon, reward, one.version, one.policy)


def _compare(answers: Sequence[Answer], spec: RewardSpec) -> tuple[tuple[Answer, ...], OffPolicyGate | None]:
    """The answers whose rewards are known on both sides, and the comparison. An answer without a reward is a failure
    and no 0; where too many have none, the others say nothing of them."""
    valued = value_both(spec, {one.decision: one.pick for one in answers})
    rows, own, logged, failed = [], [], [], 0
    for one in answers:
        both = valued.get(one.decision)
        if both is None:
            continue
        if both.other is None:
            failed += 1
            continue
        rows.append(one)
        own.append(training_scale(spec, both.other))
        logged.append(training_scale(spec, both.done))
    if not rows:
        return (), None
    gate = compare_with_own(own, logged, [one.group for one in rows])
    if failed > MAX_FAILED_SHARE * (failed + len(rows)):
        refusal = (
            f"No reward can be calculated for {failed:,} of {failed + len(rows):,} answers; at most"
            f" {MAX_FAILED_SHARE:.0%} may be missing."
        )
        gate = replace(gate, passed=False, refusals=(*gate.refusals, refusal))
    return tuple(rows), gate


def _read(shadow: Shadow, spec: RewardSpec, written: bool) -> Iterator[Answer]:
    """The newest first."""
    asked: dict[str, Any] = {"shadow": shadow.id, "spec": spec.id, "written": written, "rows": ROWS}
    with connection.cursor() as cursor:
        cursor.execute(_ANSWERS, asked)
        for decision, place, places, thought, pick, *rest in cursor.fetchall():
            order = loaded(places) or ([] if place is None else [place])
            yield Answer(decision, tuple(order), tuple(loaded(thought) or ()), loaded(pick), *rest)
