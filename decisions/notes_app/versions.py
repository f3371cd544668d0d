"""How the versions that decided for a kind of agent compare: the notes app's `ab-test`.

Every policy that stands in the ledger is a version, of ours or an outside model, and so is every one that serves. While
an experiment compares versions of the agent, each of its arms is one: a version of the model asked as a version of the
agent. The figures are of all their decisions, by who acted. Units are clusters: decisions of one are not independent.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from decisions.agents.arm_setups import find_arm_setups
from decisions.errors import UnknownAgent
from decisions.models import Agent, AgentVersion, Verdict
from decisions.models.verdicts import FIRST_COUNTS, STANDS, SUPERSEDING, VERDICT
from decisions.notes_app.ledger import agent_of_kind
from decisions.rewards.specs import find_specs
from models_registry.experiments.holdouts import find_running_holdout
from models_registry.models import (
    Alias,
    AliasName,
    Arm,
    ExperimentState,
    ModelVersion,
    Phase,
    Variant,
)
from models_registry.statistics.best_of import Sums, find_best, mean_of, share_of
from models_registry.statistics.intervals import Interval
from workspaces.access.actors import Actor

MOST = 200
"""Policies, those with most decisions first."""
ROUNDING = 1e-9
# A row for each policy and unit is all that leaves the inner query, and sums over units all that leaves the outer one.
_SUMS = f"""
WITH judged AS MATERIALIZED (
  SELECT DISTINCT ON (f.decision_id) f.decision_id AS id, f.value #>> '{{}}' AS verdict FROM decisions_feedback f
   WHERE f.workspace_id = %(workspace)s AND f.metric = '{VERDICT}' AND f.decision_id IS NOT NULL
     AND {STANDS.format("f", SUPERSEDING)}
   ORDER BY f.decision_id, {FIRST_COUNTS.format("f")}),
units AS (
  SELECT d.model_version_id AS version, d.policy_name AS policy, arm.setup AS setup,
         coalesce(d.unit, d.id::text) AS unit, count(*) AS decisions, sum(d.confidence) AS confidence,
         count(d.confidence) AS sure,
         count(r.raw) AS rewarded, coalesce(sum(r.raw), 0) AS reward,
         count(*) FILTER (WHERE j.verdict = 'confirmed') AS confirmed,
         count(*) FILTER (WHERE j.verdict = 'corrected') AS corrected,
         count(*) FILTER (WHERE j.verdict = 'overridden') AS overridden,
         count(*) FILTER (WHERE j.verdict = 'ignored') AS ignored
    FROM decisions_decision d
    LEFT JOIN unnest(%(versions)s::uuid[], %(setups)s::uuid[]) AS arm(version, setup)
           ON arm.version = d.model_version_id AND arm.setup = d.agent_version_id
    LEFT JOIN judged j ON j.id = d.id
    LEFT JOIN (SELECT decision_id, raw FROM decisions_reward newest
                WHERE spec_id = %(spec)s AND value IS NOT NULL
                  AND NOT EXISTS (SELECT 1 FROM decisions_reward later
                                   WHERE later.decision_id = newest.decision_id AND later.spec_id = newest.spec_id
                                     AND later.version > newest.version AND later.version > 1)) r
           ON r.decision_id = d.id
   WHERE d.agent_id = %(agent)s
   GROUP BY 1, 2, 3, 4)
SELECT version, policy, setup, sum(decisions), sum(confidence), sum(sure),
       sum(confirmed), sum(corrected), sum(overridden), sum(ignored),
       sum(rewarded), count(*) FILTER (WHERE rewarded > 0), sum(reward), sum(reward * reward), sum(reward * rewarded),
       sum(rewarded * rewarded),
       sum(confirmed + corrected), count(*) FILTER (WHERE confirmed + corrected > 0), sum(confirmed * confirmed),
       sum(confirmed * (confirmed + corrected)), sum((confirmed + corrected) * (confirmed + corrected))
  FROM units GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT {MOST}
"""  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class Key:
    """Who acted: a version of the model, by its id, or an outside model by name. `setup`: the version of the agent that
    it was asked as, where that makes it an arm."""

    version: uuid.UUID | None
    policy: str | None = None
    setup: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Serving:
    """A version that serves now: its share of the units, and the version of the agent where it is an arm's."""

    version: ModelVersion
    weight: float
    setup: AgentVersion | None = None

    @property
    def key(self) -> Key:
        return Key(self.version.id, None, self.setup.id if self.setup is not None else None)

    @property
    def name(self) -> str:
        return str(self.version) if self.setup is None else f"{self.version} with {self.setup}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one policy decided. `reward` of raw rewards, `accepted` of confirmed against corrected ones."""

    decisions: int
    confidence: float | None
    verdicts: Mapping[str, int]
    reward: Sums
    accepted: Sums


NOTHING = Sums(0, 0, 0.0, 0.0, 0.0, 0.0)
UNUSED = Found(0, None, dict.fromkeys(Verdict.values, 0), NOTHING, NOTHING)


def compare_versions(*, by: Actor, kind: str) -> dict[str, Any]:
    """The versions of the agent of this kind, as the notes app reads them; none where there is no such agent."""
    try:
        agent = agent_of_kind(by, kind)
    except UnknownAgent:
        return _single(kind, [])
    serving, experiment = _find_serving(agent)
    told = _find_sums(agent, serving)
    rows = [(one.name, one.version.description, one.weight, told.pop(one.key, UNUSED)) for one in serving]
    ids = [key.version for key in told if key.version is not None]
    versions = ModelVersion.objects.select_related("registered_model").in_bulk(ids)
    for key, sums in told.items():
        earlier = versions.get(key.version) if key.version is not None else None
        rows.append((str(earlier or key.policy), earlier.description if earlier is not None else "", 0.0, sums))
    rows.sort(key=lambda row: (-row[2], -row[3].decisions, row[0]))
    listed = [{"version": name, "description": text, "weight": weight} for name, text, weight, _ in rows]
    if len(rows) < 2:
        return _single(kind, listed)
    rewarded = sum(row[3].reward.n for row in rows)
    return {
        "agentType": kind,
        "abTestingEnabled": True,
        "experimentId": experiment,
        "totalDecisions": sum(row[3].decisions for row in rows),
        "overallAvgReward": sum(row[3].reward.total for row in rows) / rewarded if rewarded else None,
        "versions": [one | {"stats": _describe(row[3])} for one, row in zip(listed, rows, strict=True)],
        "comparison": _compare({row[0]: row[3] for row in rows}),
    }


def _single(kind: str, versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = "Only one version is known" if versions else "No version is known"
    return {
        "agentType": kind,
        "abTestingEnabled": False,
        "message": f"{known}: there is nothing to compare. Start an experiment, or record decisions of other versions.",
        "versions": list(versions),
    }


def _find_sums(agent: Agent, serving: Sequence[Serving]) -> dict[Key, Found]:
    specs = [spec.id for spec in find_specs(agent.workspace) if spec.agent_id == agent.id]
    arms = [(one.version.id, one.setup.id) for one in serving if one.setup is not None]
    parameters: dict[str, Any] = {
        "agent": agent.id,
        "workspace": agent.workspace_id,
        "spec": specs[0] if specs else None,
        "versions": [version for version, _ in arms],
        "setups": [setup for _, setup in arms],
    }
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, parameters)
        rows = cursor.fetchall()
    return {Key(*row[:3]): _read(row[3:]) for row in rows}


def _read(row: Sequence[Any]) -> Found:
    decisions, confidence, sure, confirmed, corrected, overridden, ignored = row[:7]
    rewarded, rewarded_units, reward, squares, products, sizes = row[7:13]
    judged, judged_units, hit_squares, hit_products, hit_sizes = row[13:]
    return Found(
        int(decisions),
        float(confidence) / int(sure) if sure else None,
        {
            Verdict.CONFIRMED: int(confirmed),
            Verdict.CORRECTED: int(corrected),
            Verdict.OVERRIDDEN: int(overridden),
            Verdict.IGNORED: int(ignored),
        },
        Sums(int(rewarded), int(rewarded_units), float(reward), float(squares), float(products), float(sizes)),
        Sums(
            int(judged), int(judged_units), float(confirmed), float(hit_squares), float(hit_products), float(hit_sizes)
        ),
    )


def _find_serving(agent: Agent) -> tuple[list[Serving], uuid.UUID | None]:
    """Who serves the agent now, and the running experiment, or group of them, that its units take part in."""
    model = agent.registered_model
    running = Phase.objects.filter(
        experiment__registered_model=model, experiment__state=ExperimentState.RUNNING, ended_at__isnull=True
    )
    phases, acts = {}, {}
    for phase in running.select_related("experiment").order_by("id"):
        setups = find_arm_setups(phase.experiment_id)
        if setups is None or setups.agent_id == agent.id:  # else the model's other agents stay outside
            phases[phase.experiment_id] = phase
            acts[phase.experiment_id] = setups.versions if setups is not None else {}
    found: dict[Key, Serving] = {}
    for one in Variant.objects.filter(experiment__in=phases).select_related("version__registered_model"):
        phase = phases[one.experiment_id]
        lane = phase.experiment.lane_high - phase.experiment.lane_low
        share = phase.treatment_share if one.arm == Arm.TREATMENT else 1.0 - phase.treatment_share
        _add(found, Serving(one.version, lane * share, acts[one.experiment_id].get(one.arm)))
    rest = 1.0 - sum(one.weight for one in found.values())
    own = next((versions[Arm.CONTROL] for versions in acts.values() if versions), None)
    if rest > ROUNDING:  # without an experiment all, and in a group the lanes of those that ended
        for alias in Alias.objects.filter(registered_model=model, name=AliasName.CHAMPION).select_related(
            "version__registered_model"
        ):
            _add(found, Serving(alias.version, rest, own))
    if model is not None and (holdout := find_running_holdout(model)) is not None:
        found = {key: replace(one, weight=one.weight * (1.0 - holdout.share)) for key, one in found.items()}
        _add(found, Serving(holdout.version, holdout.share, own))
    experiments = [phase.experiment for phase in phases.values()]
    return list(found.values()), (experiments[0].group_id or experiments[0].id) if experiments else None


def _add(found: dict[Key, Serving], one: Serving) -> None:
    """Experiments of a group may have the same control."""
    before = found.get(one.key)
    found[one.key] = one if before is None else replace(one, weight=before.weight + one.weight)


def _describe(found: Found) -> dict[str, Any]:
    reward, accepted = mean_of(found.reward), share_of(found.accepted)
    return {
        "totalDecisions": found.decisions,
        "decisionsWithReward": found.reward.n,
        "decisionsWithFeedback": sum(found.verdicts.values()),
        "avgReward": _number(reward.mean),
        "avgRewardInterval": _ends(reward),
        "avgConfidence": found.confidence,
        "acceptanceRate": _number(accepted.mean),
        "acceptanceInterval": _ends(accepted),
        "feedbackBreakdown": dict(found.verdicts),
    }


def _ends(interval: Interval) -> list[float] | None:
    """Null where too little is known for one."""
    return [interval.low, interval.high] if interval.n and math.isfinite(interval.high - interval.low) else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _compare(found: Mapping[str, Found]) -> dict[str, Any]:
    reward = find_best({name: one.reward for name, one in found.items()})
    accepted = find_best({name: one.accepted for name, one in found.items()})
    most = max(found, key=lambda name: found[name].decisions)
    return {
        "bestReward": reward.name,
        "bestRewardIsClear": reward.clear,
        "bestAcceptanceRate": accepted.name,
        "bestAcceptanceRateIsClear": accepted.clear,
        "mostDecisions": most if found[most].decisions else None,
    }
