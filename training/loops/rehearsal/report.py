"""The result of a rehearsal, read from the ledger: one entry a seed, then all of them together.

Every accuracy is on the same held-out rows, with its interval; before and after are compared in pairs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decisions.gateway.exploration import acting_policy
from decisions.models import Decision
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem
from models_registry.backends.model_server import score
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendUnavailable
from models_registry.experiments.guardrails import DEFAULT_GUARDRAILS
from models_registry.experiments.outcome_range import find_range
from models_registry.models import GuardrailMeasure, ModelVersion
from models_registry.statistics.e_process import rescale
from training.evaluation.off_policy import Log, check_off_policy_gate
from training.evaluation.paired_runs import read_hits, subtract_hits
from training.evaluation.scores import as_plain
from training.loops.rehearsal.loop import (
    EVERY_LABEL,
    GATE_EPSILON,
    GATE_LOG,
    GATE_TEMPERATURE,
    SEED_LABELS,
    SeedLoop,
    round_name,
)
from training.loops.rehearsal.outlook import VersionPair, needed_decisions, needed_units
from training.models import TrainingRun
from training.rows.parts import ROWS_FILE
from training.rows.reward_scale import reward_if
from training.runs.candidates import NO_ENCODER, PolicyKind, kind_of, order_runs
from workspaces.templatetags.show import percent

SHARES = (0.90, 0.95, 0.97)


def report_seed(loop: SeedLoop) -> dict[str, Any]:
    """Of a seed whose stages are done. Asks the model server for the final version's view of the gate's rows."""
    base_run, ceiling_run = _finished(loop, SEED_LABELS), _finished(loop, EVERY_LABEL)
    rounds = [_report_round(loop, number) for number in range(1, loop.plan.rounds + 1)]
    final = _finished(loop, round_name(loop.plan.rounds))
    gate_log = _read_gate_log(loop)
    base, ceiling = _accuracy(base_run), _accuracy(ceiling_run)
    reached = rounds[-1]["accuracy"]["mean"]
    scores = final.evaluation.scores
    needed = needed_decisions(
        [entry["decisions"] for entry in rounds],
        [entry["accuracy"]["mean"] for entry in rounds],
        base=base["mean"],
        ceiling=ceiling["mean"],
        shares=SHARES,
    )
    return {
        "seed": loop.seed,
        "rows": {
            "seed_labels": len(loop.split.seed_rows),
            "decisions": len(loop.split.stream),
            "gate_log": len(loop.split.gate),
            "held_out": len(loop.split.heldout),
        },
        "versions": {"base": str(base_run.produced_version), "final": str(final.produced_version)},
        "base": base,
        "rounds": rounds,
        "final": rounds[-1]["accuracy"],
        "difference": rounds[-1]["difference"],
        "reward": {"base": base_run.evaluation.scores["trained"]["reward"], "final": scores["trained"]["reward"]},
        "kinds": {"base": kind_of(base_run).value, "final": rounds[-1]["kind"], "ceiling": kind_of(ceiling_run).value},
        "valid_share": scores["trained"].get("valid_share"),
        "plain": final.evaluation.plain,
        "ceiling": ceiling,
        "of_ceiling": reached / ceiling["mean"] if ceiling["mean"] else None,
        "gap_closed": _gap_closed(base["mean"], reached, ceiling["mean"]),
        "better": bool(rounds[-1]["difference"]["low"] > 0),
        "off_policy": _off_policy(loop, gate_log),
        "needed": [
            {
                "share": entry.share,
                "accuracy": entry.accuracy,
                "decisions": entry.decisions,
                "extrapolated": entry.extrapolated,
            }
            for entry in needed
        ],
        "experiment_units": _experiment_units(loop, gate_log),
        "training_seconds": sum(entry["training_seconds"] for entry in rounds) + _seconds(base_run),
    }


def _finished(loop: SeedLoop, dataset: str) -> TrainingRun:
    run = loop.run_on(dataset)
    assert run is not None and run.is_terminal
    return run


def _accuracy(run: TrainingRun) -> dict[str, Any]:
    accuracy: dict[str, Any] = run.evaluation.scores["trained"]["accuracy"]
    return accuracy


def _seconds(run: TrainingRun) -> float:
    return float(run.metrics["seconds"])


def _report_round(loop: SeedLoop, number: int) -> dict[str, Any]:
    run = _finished(loop, round_name(number))
    ends = [0, *loop.split.round_ends(loop.plan.rounds)]
    rows = loop.split.stream[ends[number - 1] : ends[number]]
    made = Decision.objects.filter(id__in=[loop.decision_id(row) for row in rows]).values_list("external_id", "action")
    right = [loop.label_of[row] == action for row, action in made]
    return {
        "number": number,
        "decisions": ends[number],
        "rewarded": run.dataset.rows - run.dataset.statistics.get("unjudged", 0),
        "right_share": sum(right) / len(right),
        "accuracy": _accuracy(run),
        "difference": subtract_hits(read_hits(run), read_hits(_finished(loop, SEED_LABELS))),
        "candidates": {kind_of(one).value: _accuracy(one) for one in order_runs(loop.runs_on(round_name(number)))},
        "kind": kind_of(run).value,
        "version": str(run.produced_version),
        "run": str(run.id),
        "training_seconds": _seconds(run),
    }


def _gap_closed(base: float, reached: float, ceiling: float) -> float | None:
    return (reached - base) / (ceiling - base) if ceiling > base else None


@dataclass(frozen=True, slots=True)
class GateLog:
    """The answered rows of the gate's log, on which no version was trained.

    right: (n,), the place of the right label among the options; final: (n, k), the last version as it acts on them.
    """

    rows: list[dict[str, Any]]
    right: NDArray[np.int64]
    final: NDArray[np.float64]


def _read_gate_log(loop: SeedLoop) -> GateLog:
    dataset = loop.dataset(GATE_LOG)
    assert dataset is not None
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    with path.open(encoding="utf-8") as handle:
        rows = [json.loads(line) for line in handle]
    external = dict(
        Decision.objects.filter(id__in=[row["id"] for row in rows]).values_list("id", "external_id").iterator()
    )
    answer_of = {str(given): loop.label_of[row] for given, row in external.items()}
    right = np.array([row["options"].index(answer_of[row["id"]]) for row in rows])
    return GateLog(rows, right, _act(loop, rows, loop.final_version()))


def _act(loop: SeedLoop, rows: Sequence[Mapping[str, Any]], version: ModelVersion) -> NDArray[np.float64]:
    """P(option | row) with which the version would act on the rows, (n, k)."""
    thoughts = _probabilities(loop, [row["prompt"] for row in rows], version.stored.digest)
    acting = {"temperature": loop.plan.temperature, "epsilon": loop.plan.epsilon}
    return np.array([acting_policy(thought, **acting) for thought in thoughts])


def _experiment_units(loop: SeedLoop, log: GateLog) -> int | None:
    """Of an experiment with nothing set, the base against the last version; a unit is one decision."""
    model, spec = loop.agent.registered_model, current_reward_spec(loop.agent)
    base = _finished(loop, SEED_LABELS).produced_version
    assert model is not None and base is not None
    wrong, right = rescale([reward_if(spec, "corrected"), reward_if(spec, "confirmed")], *find_range(model))
    margins = {guardrail.measure: guardrail.margin for guardrail in DEFAULT_GUARDRAILS}
    pair = VersionPair(
        control=_act(loop, log.rows, base),
        treatment=log.final,
        right=log.right,
        outcomes=(float(wrong), float(right)),
        noise=loop.plan.noise,
        missing=loop.plan.missing,
    )
    told = (GuardrailMeasure.ERROR_RATE, GuardrailMeasure.LATENCY, GuardrailMeasure.MISSING_FEEDBACK)
    error, latency, silence = (margins[measure.value] for measure in told)
    return needed_units(pair, seed=loop.seed, margins=(error, latency, silence))


def _off_policy(loop: SeedLoop, gate_log: GateLog) -> dict[str, Any]:
    """The final version's value from the log alone, beside the truth that only a rehearsal knows."""
    rows, policies = gate_log.rows, gate_log.final
    chosen = [row["options"].index(row["action"]) for row in rows]
    # How the model itself expects feedback to come out: it has seen none of this log.
    guess = [loop.person.expected_feedback(1.0) * policy + loop.plan.noise * (1 - policy) for policy in policies]
    log = Log(
        reward=np.array([row["reward"] for row in rows]),
        propensity=np.array([row["propensity"] for row in rows]),
        target=np.array([policy[place] for policy, place in zip(policies, chosen, strict=True)]),
        q_logged=np.array([q[place] for q, place in zip(guess, chosen, strict=True)]),
        q_target=np.array([policy @ q for policy, q in zip(policies, guess, strict=True)]),
        epsilon=GATE_EPSILON,
    )
    gate = check_off_policy_gate(log)
    right = policies[np.arange(len(rows)), gate_log.right]
    truth = float(np.mean([loop.person.expected_feedback(float(p)) for p in right]))
    estimates = gate.estimates
    return {
        "rows": len(rows),
        "temperature": GATE_TEMPERATURE,
        "epsilon": GATE_EPSILON,
        "truth": truth,
        "logged": as_plain(estimates.logged),
        "ips": _finite(as_plain(estimates.ips)),
        "snips": _finite(as_plain(estimates.snips)),
        "direct": _finite(as_plain(estimates.direct)),
        "doubly_robust": _finite(as_plain(estimates.doubly_robust)),
        "covered": bool(estimates.doubly_robust.low <= truth <= estimates.doubly_robust.high),
        "effective_sample_size": estimates.effective_sample_size,
        "gate": {
            "passed": gate.passed,
            "difference": _finite(as_plain(gate.difference)),
            "lower": gate.lower if math.isfinite(gate.lower) else None,
            "refusals": list(gate.refusals),
        },
    }


def _finite(interval: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinities: an interval without bounds has none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in interval.items()
    }


def _probabilities(loop: SeedLoop, prompts: Sequence[str], digest: str) -> list[tuple[float, ...]]:
    options = tuple(loop.labels)
    found = []
    for answer in score([ScoreItem(digest, Prompt(prompt), options, loop.prompt_tokens) for prompt in prompts]):
        if answer.probabilities is None:
            raise BackendUnavailable(f"The model server could not score the gate's log: {answer.error}")
        found.append(answer.probabilities)
    return found


def report_all(
    about: Mapping[str, Any], plan: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """All seeds together: the mean over them and the least and most, never one seed's luck alone."""
    units = [result["experiment_units"] for result in results]
    return {
        "about": dict(about),
        "plan": dict(plan),
        "seeds": [dict(result) for result in results],
        "base": _spread([result["base"]["mean"] for result in results]),
        "final": _spread([result["final"]["mean"] for result in results]),
        "difference": _spread([result["difference"]["mean"] for result in results]),
        "ceiling": _spread([result["ceiling"]["mean"] for result in results]),
        "plain": _plain(results),
        "of_ceiling": _spread([result["of_ceiling"] for result in results]),
        "gap_closed": _spread([result["gap_closed"] for result in results]),
        "better": all(result["better"] for result in results),
        "better_seeds": sum(result["better"] for result in results),
        "off_policy_covered": sum(result["off_policy"]["covered"] for result in results),
        "gates_passed": sum(result["off_policy"]["gate"]["passed"] for result in results),
        "needed": [_needed(results, place) for place in range(len(SHARES))],
        "experiment_units": None if None in units else _spread(units),
        "training_seconds": sum(result["training_seconds"] for result in results),
    }


def _plain(results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What a plain classifier of words reaches on the same feedback; None where a seed is older than the comparison.

    `better_seeds`: in how many the whole interval of the trained model less the words lies below 0.
    """
    found = [result["plain"] for result in results if result.get("plain")]
    if len(found) < len(results):
        return None
    return {
        "accuracy": _spread([one["accuracy"]["mean"] for one in found]),
        "difference": _spread([one["difference"]["mean"] for one in found]),
        "better_seeds": sum(one["difference"]["high"] < 0 for one in found),
    }


def _spread(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": sum(known) / len(known), "low": min(known), "high": max(known)}


def _needed(results: Sequence[Mapping[str, Any]], place: int) -> dict[str, Any]:
    """Decisions until a share of the ceiling: the median seed, None where it does not get there."""
    entries = [result["needed"][place] for result in results]
    entries.sort(key=lambda entry: math.inf if entry["decisions"] is None else entry["decisions"])
    median = entries[len(entries) // 2]
    return {name: median[name] for name in ("share", "decisions", "extrapolated")}


def describe_kinds(report: Mapping[str, Any]) -> str | None:
    """What each kind of policy reaches after the last round, and without a sentence encoder what one may bring; None
    for a report that is older than the comparison."""
    last = [seed["rounds"][-1].get("candidates") for seed in report["seeds"]]
    if not all(last):
        return None
    means = {
        kind: sum(one[kind.value]["mean"] for one in last) / len(last)
        for kind in PolicyKind
        if all(kind.value in one for one in last)
    }
    chosen = {PolicyKind(seed["rounds"][-1]["kind"]).says for seed in report["seeds"]}
    reached = ", ".join(f"a {kind.says} {percent(mean)}" for kind, mean in means.items())
    says = f"After the last round: {reached}. Taken: {', '.join(sorted(chosen))}."
    return says if PolicyKind.ENCODER in means else f"{says} {NO_ENCODER}"
