"""A shadow's figures from its newest answers: how often the candidate agrees with what was done, what it would earn.

The estimate is that of the gate by the log (`training.log_gate`). `training.shadows.rounds` calls it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection

from decisions.agents.current import find_current_version
from decisions.gateway.exploration import acting_policy
from decisions.models import AgentVersion, RewardSpec, Shadow
from decisions.models.tombstones import NOT_ERASED
from decisions.rewards.specs import current_reward_spec
from models_registry.statistics.intervals import Interval, share_interval
from training.log_gate import ROWS, estimate_at
from training.off_policy import MIN_EXPLORATION, OffPolicyGate
from training.reward_scale import training_scale

_ANSWERS = f"""
SELECT a.place, a.probabilities, a.agrees, coalesce(nullif(d.unit, ''), d.episode_id::text, d.id::text),
       d.propensity, d.epsilon, d.model_version_id, d.policy_name, r.raw
  FROM decisions_shadowanswer a
  JOIN decisions_decision d ON d.id = a.decision_id
  LEFT JOIN LATERAL (
    SELECT value, raw FROM decisions_reward
     WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1
  ) r ON r.value IS NOT NULL
 WHERE a.shadow_id = %(shadow)s AND a.error = '' AND d.{NOT_ERASED}
 ORDER BY a.id DESC
 LIMIT %(rows)s
"""  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class Rewarded:
    """An answered decision whose reward, propensity and exploration are known; as `training.log_gate.Acted`. `place`
    of its action among the options, `thought`: the candidate's probabilities."""

    place: int
    thought: tuple[float, ...]
    group: str
    propensity: float
    epsilon: float
    reward: float
    version: uuid.UUID | None
    policy: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """agreement: the share of answers whose likeliest option is what was done; None without answers. gate: the
    estimate over `rows`; None without any."""

    agreement: Interval | None
    rows: tuple[Rewarded, ...]
    gate: OffPolicyGate | None


def measure_shadow(shadow: Shadow) -> Figures:
    """Over the newest `ROWS` answers. The candidate would act with the temperature and ε of the agent's current
    version."""
    agent = shadow.agent
    spec = current_reward_spec(agent)
    acts = find_current_version(agent)
    assert acts is not None, "an agent that decided has a version"
    hits: list[bool] = []
    groups: list[str] = []
    rows: list[Rewarded] = []
    for agrees, group, row in _read(shadow, spec):
        hits.append(agrees)
        groups.append(group)
        if row is not None:
            rows.append(row)
    agreement = share_interval(hits, groups) if hits else None
    return Figures(agreement, tuple(rows), estimate(rows, acts) if rows else None)


def estimate(rows: Sequence[Rewarded], acts: AgentVersion) -> OffPolicyGate:
    thoughts = [np.array(row.thought) for row in rows]
    policies = [
        np.array(acting_policy(row.thought, temperature=acts.temperature, epsilon=acts.epsilon)) for row in rows
    ]
    return estimate_at(rows, [row.place for row in rows], thoughts, policies)


def _read(shadow: Shadow, spec: RewardSpec) -> Iterator[tuple[bool, str, Rewarded | None]]:
    with connection.cursor() as cursor:
        cursor.execute(_ANSWERS, {"shadow": shadow.id, "spec": spec.id, "rows": ROWS})
        for place, thought, agrees, group, propensity, epsilon, version, policy, raw in cursor.fetchall():
            row = None
            if raw is not None and propensity is not None and (epsilon or 0.0) >= MIN_EXPLORATION:
                row = Rewarded(
                    place=place,
                    thought=tuple(json.loads(thought) if isinstance(thought, str) else thought),
                    group=group,
                    propensity=propensity,
                    epsilon=epsilon,
                    reward=training_scale(spec, raw),
                    version=version,
                    policy=policy,
                )
            yield agrees, group, row
