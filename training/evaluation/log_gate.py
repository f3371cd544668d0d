"""The gate by the log: what a run's version would have earned on decisions that it has not learnt from.

`training.supervision.job` writes the rows before an attempt, the engine adds what the new version thinks of them, and
`judge_by_log` makes the verdict (docs/experiments.md, "From a log alone"). Nothing here runs inside a request.
"""

from __future__ import annotations

import json
import math
import uuid
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from django.conf import settings
from django.db import connection

from decisions.agents.current import find_current_version
from decisions.gateway.choosing import policy_of
from decisions.gateway.exploration import order_probability
from decisions.models.tombstones import NOT_ERASED
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from models_registry.models import GateKind, GateVerdict, ModelVersion
from models_registry.statistics.intervals import Interval
from training.engine.spec.run_spec import is_held_back
from training.evaluation.off_policy import (
    MIN_EXPLORATION,
    Log,
    OffPolicyGate,
    check_off_policy_gate,
    cross_fit_by_probability,
)
from training.models import DatasetKind, TrainingRun
from training.rows.parts import ROWS_FILE
from training.rows.reward_scale import training_scale
from training.rows.selection import FETCH, Rewarded, loaded
from training.rows.shapes_of.shapes import CHOICE, find_versions
from training.rows.splitting import task_of

ROWS = 5_000
"""The newest so many decisions are judged by: older ones are of other times, and each costs a forward pass."""
LOG_FILE = "data/log.jsonl"
NO_DECISIONS = (
    "There are no decisions with a reward, a propensity, an exploration share of at least "
    f"{MIN_EXPLORATION} and no exploration budget that this version and its ancestors have not learnt from."
)

# Decisions in `whole` datasets were learnt from; of those in `partly` the rows that were held back were not.
_ROWS = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, d.propensity, d.unit, d.episode_id, d.epsilon,
       d.model_version_id, d.policy_name, r.raw, r.version,
       EXISTS (SELECT 1 FROM training_datasetitem i WHERE i.decision_id = d.id AND i.dataset_id = ANY(%(partly)s))
  FROM decisions_decision d
  JOIN LATERAL (
    SELECT value, raw, version FROM decisions_reward
     WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1
  ) r ON true
 WHERE d.agent_id = %(agent)s AND d.agent_version_id = ANY(%(versions)s)
   AND r.value IS NOT NULL AND d.propensity IS NOT NULL AND d.epsilon >= %(epsilon)s AND d.{NOT_ERASED}
   AND NOT EXISTS (SELECT 1 FROM training_datasetitem i WHERE i.decision_id = d.id AND i.dataset_id = ANY(%(whole)s))
 ORDER BY d.id DESC
"""  # noqa: S608 - constants of ours


class Made(Protocol):
    """Who made a decision: a version of ours, or a policy by name."""

    @property
    def version(self) -> uuid.UUID | None: ...
    @property
    def policy(self) -> str | None: ...


class Acted(Made, Protocol):
    """What an estimate reads of one decision; see LoggedDecision."""

    @property
    def group(self) -> str: ...
    @property
    def propensity(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def reward(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """What the estimates need of one decision; `reward` in [0, 1]. Exactly one of `version` and `policy` acted."""

    id: str
    group: str
    options: tuple[str, ...]
    action: str
    propensity: float
    epsilon: float
    reward: float
    version: uuid.UUID | None
    policy: str | None


def write_log(run: TrainingRun, run_dir: Path) -> list[LoggedDecision]:
    """Writes the rows that the engine is to ask the new version about, newest first, into the run's folder; written
    anew for each attempt, so that what was erased meanwhile is not among them."""
    path = run_dir / LOG_FILE
    found: list[LoggedDecision] = []
    with path.open("w", encoding="utf-8") as lines, closing(_read(run)) as decisions:
        for decision, asked in decisions:
            row = {"id": decision.id, **asked, "options": decision.options, "action": decision.action}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            found.append(decision)
            if len(found) == ROWS:
                break
    return found


def remove_log(run_id: uuid.UUID) -> None:
    """The rows name what people wrote, and nothing needs them once the engine has ended."""
    (settings.RUNS / str(run_id) / LOG_FILE).unlink(missing_ok=True)


def _read(run: TrainingRun) -> Generator[tuple[LoggedDecision, dict[str, Any]]]:
    """Choices with the columns of what was asked, newest first. Rankings are left out
    (docs/adr/0023-rows-by-shape.md); a shadow estimates what they would earn."""
    spec = current_reward_spec(run.agent)
    found, shapes = find_versions(run.agent, DatasetKind.LOGGED)
    # A budget leaves enough exploration only where the model was unsure: such decisions say nothing of the others.
    versions = {pk: one for pk, one in found.items() if shapes[pk] == CHOICE and one.exploration_budget is None}
    whole, partly = find_learnt(run)
    held_back = _find_held_back(run)
    asked: dict[str, Any] = {
        "agent": run.agent_id,
        "versions": list(versions),
        "spec": spec.id,
        "epsilon": MIN_EXPLORATION,
        "whole": whole,
        "partly": partly,
    }
    with connection.chunked_cursor() as cursor:
        cursor.execute(_ROWS, asked)
        while chunk := cursor.fetchmany(FETCH):
            for (
                pk,
                setup,
                state,
                options,
                action,
                propensity,
                *of_it,
                epsilon,
                acted,
                policy,
                raw,
                number,
                learnt,
            ) in chunk:
                if learnt and str(pk) not in held_back:
                    continue
                unit, episode = of_it
                reward = training_scale(spec, raw)
                rewarded = Rewarded(
                    id=pk, version=versions[setup], state=loaded(state), options=loaded(options),
                    action=loaded(action), propensity=propensity, unit=unit, episode=episode, alternatives=None,
                    temperature=None, epsilon=epsilon, completion=None, logprobs=None,
                    reward=reward, raw=raw, right=None, reward_version=number,
                )  # fmt: skip
                rows = CHOICE.write_rows(rewarded)
                if isinstance(rows, str):
                    continue
                (row,) = rows
                yield (
                    LoggedDecision(
                        id=str(pk),
                        group=str(task_of(rewarded.state) or unit or episode or pk),
                        options=tuple(row["options"]),
                        action=row["action"],
                        propensity=propensity,
                        epsilon=epsilon,
                        reward=reward,
                        version=acted,
                        policy=policy,
                    ),
                    {name: row[name] for name in ("prompt", "system") if name in row},
                )


def find_learnt(run: TrainingRun) -> tuple[list[uuid.UUID], list[uuid.UUID]]:
    """Datasets that the run and the runs of its base's ancestry learnt from: wholly, and but for what was held back."""
    share = run.spec.get("held_back", 0.0)
    whole: list[uuid.UUID] = []
    partly: list[uuid.UUID] = []
    one: TrainingRun | None = run
    seen: set[uuid.UUID] = set()
    while one is not None and one.id not in seen:
        seen.add(one.id)
        kept = share > 0 and one.spec.get("held_back", 0.0) >= share and one.dataset.kind == DatasetKind.LOGGED
        (partly if kept else whole).append(one.dataset_id)
        if one.replay_id is not None:
            whole.append(one.replay_id)
        one = (
            TrainingRun.objects.select_related("dataset").filter(produced_version=one.base_version_id).first()
            if one.base_version_id is not None
            else None
        )
    return whole, partly


def _find_held_back(run: TrainingRun) -> frozenset[str]:
    """Ids of the rows of its dataset that the engine does not learn from."""
    share = run.spec.get("held_back", 0.0)
    if not share or run.dataset.kind != DatasetKind.LOGGED:
        return frozenset()
    with (artifact_path(run.dataset.artifact.digest) / ROWS_FILE).open(encoding="utf-8") as lines:
        rows = ((row["id"], row.get("group")) for row in map(json.loads, lines))
        return frozenset(pk for pk, group in rows if is_held_back(pk, group, share))


def judge_by_log(run: TrainingRun, log: Sequence[LoggedDecision], path: Path | None) -> GateVerdict:
    """The verdict, not saved and without its version. `path`: what the engine wrote of the log; None: nothing."""
    thoughts = _read_thoughts(path)
    rows = [row for row in log if row.id in thoughts]
    verdict = GateVerdict(workspace_id=run.workspace_id, kind=GateKind.OFF_POLICY, passed=False)
    if not rows:
        verdict.refusals, verdict.details = [NO_DECISIONS], {"measure": "reward", "rows": 0}
        return verdict
    acts = find_current_version(run.agent)
    assert acts is not None, "an agent that decided has a version"
    policies = [np.array(policy_of(acts, thoughts[row.id])) for row in rows]
    gate = estimate_from_log(rows, [np.array(thoughts[row.id]) for row in rows], policies)
    versions = {row.version for row in rows}
    verdict.against_id = versions.pop() if len(versions) == 1 else None
    verdict.passed, verdict.refusals = gate.passed, list(gate.refusals)
    if is_finite(gate.difference):
        verdict.estimate, verdict.low, verdict.high = gate.difference.mean, gate.difference.low, gate.difference.high
    verdict.details = describe_estimate(gate, rows) | acts.acting
    return verdict


def _read_thoughts(path: Path | None) -> Mapping[str, Sequence[float]]:
    if path is None:
        return {}
    with path.open(encoding="utf-8") as lines:
        return {row["id"]: row["p"] for row in map(json.loads, lines)}


def estimate_from_log(
    rows: Sequence[LoggedDecision], thoughts: Sequence[np.ndarray], policies: Sequence[np.ndarray]
) -> OffPolicyGate:
    """`thoughts` and `policies`: for each row the new model's own probabilities, and those with which it would act."""
    return estimate_at(rows, [(row.options.index(row.action),) for row in rows], thoughts, policies)


def estimate_at(
    rows: Sequence[Acted],
    actions: Sequence[Sequence[int]],
    thoughts: Sequence[np.ndarray],
    policies: Sequence[np.ndarray],
) -> OffPolicyGate:
    """The same of rows whose logged actions stand at these places among their options: one of a choice, and of a
    ranking those of its items in their order.

    Of a ranking, thoughts and policies are those of the first place. The weight is that of the whole order, by Plackett
    and Luce; the reward is guessed from the item put first alone, which what a guess misses makes less precise and
    never biased.
    """
    groups = [row.group for row in rows]
    rewards = np.array([row.reward for row in rows])
    places = np.array([action[0] for action in actions])
    guesses = (np.zeros(len(rows)), np.zeros(len(rows)))
    if len(set(groups)) > 1:  # else the gate refuses, whatever is guessed
        guesses = cross_fit_by_probability(thoughts, policies, places, rewards, groups)
    log = Log(
        reward=rewards,
        propensity=np.array([row.propensity for row in rows]),
        target=np.array(
            [order_probability(policy.tolist(), action) for policy, action in zip(policies, actions, strict=True)]
        ),
        q_logged=guesses[0],
        q_target=guesses[1],
        epsilon=min(row.epsilon for row in rows),
    )
    return check_off_policy_gate(log, groups)


def describe_estimate(gate: OffPolicyGate, rows: Sequence[Made]) -> dict[str, Any]:
    """What the verdict rests on, for pages and the API."""
    names = {
        version.id: str(version)
        for version in ModelVersion.objects.filter(id__in={row.version for row in rows if row.version}).select_related(
            "registered_model"
        )
    }
    acted = Counter(names[row.version] if row.version else str(row.policy) for row in rows)
    found = gate.estimates
    intervals = {name: getattr(found, name) for name in ("logged", "doubly_robust", "snips", "ips", "direct")}
    return {
        "measure": "reward",
        "rows": len(rows),
        "acted": dict(acted.most_common()),
        "lower": gate.lower if math.isfinite(gate.lower) else None,
        "effective_sample_size": found.effective_sample_size,
        "largest_weight_share": found.largest_weight_share,
        "mean_weight": found.mean_weight,
        "estimates": {
            name: {"mean": one.mean, "low": one.low, "high": one.high}
            for name, one in intervals.items()
            if is_finite(one)
        },
    }


def is_finite(interval: Interval) -> bool:
    """Whether anything is known of it."""
    return all(map(math.isfinite, (interval.mean, interval.low, interval.high)))
