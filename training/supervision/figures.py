"""Figures of a finished run's training: what its supervisor keeps of the engine's result, and how the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.engine.spec.methods import METHODS
from training.engine.spec.result import RunResult
from training.models import TrainingRun
from training.runs.candidates import DECISION_MILLISECONDS


@dataclass(frozen=True, slots=True)
class ShownFigures:
    """`trainable` is a share. `losses`: at start and at end, with the `reduction` as a share of the first, negative
    where it grew. `rewards`: as the engine's RewardSpread; `reward_counts`: pairs of a range and its rows. `payment`:
    as of `say_payment`."""

    metrics: Mapping[str, Any]
    trainable: float | None
    losses: tuple[float, float] | None
    reduction: float | None
    rewards: Mapping[str, Any] | None
    reward_counts: list[tuple[str, int]]
    most: int
    payment: str


def keep_metrics(result: RunResult) -> dict[str, Any]:
    """What `metrics` of the run holds from then on: a number by name, and `rewards`."""
    kept: dict[str, Any] = {
        **result.metrics,
        "seconds": result.seconds,
        "steps": result.steps,
        "rows": result.rows,
        "trainable_parameters": result.trainable_parameters,
        "total_parameters": result.total_parameters,
    }
    trained = result.scores.get("trained")
    if trained is not None and trained.milliseconds is not None:
        kept[DECISION_MILLISECONDS] = trained.milliseconds
    start, end = result.metrics.get("loss_at_start"), result.metrics.get("loss_at_end")
    if METHODS[result.method].loss_falls and start is not None and end is not None and start > 0:
        kept["loss_reduction"] = 1 - end / start
    if result.rewards is not None:
        kept["rewards"] = result.rewards.model_dump()
    return kept


def show_figures(run: TrainingRun) -> ShownFigures | None:
    """None before the end, and of runs that ended before these figures were kept."""
    told = run.metrics
    if "total_parameters" not in told:
        return None
    total, rewards = told["total_parameters"], told.get("rewards")
    counts = rewards["counts"] if rewards is not None else []
    reduction = told.get("loss_reduction")
    return ShownFigures(
        metrics=told,
        trainable=told["trainable_parameters"] / total if total else None,
        losses=(told["loss_at_start"], told["loss_at_end"]) if reduction is not None else None,
        reduction=reduction,
        rewards=rewards,
        reward_counts=[(f"{at / 10:.1f} to {(at + 1) / 10:.1f}", count) for at, count in enumerate(counts)],
        most=max(counts, default=0),
        payment=say_payment(told),
    )


def say_payment(metrics: Mapping[str, Any]) -> str:
    """By what fresh decisions were paid where the log had no propensities, for people; "" of other runs."""
    if "reward_model_auc" not in metrics:
        return ""
    auc, low, high = (metrics[f"reward_model_auc{end}"] for end in ("", "_low", "_high"))
    return (
        f"a reward model of the same decisions, cross-fitted in {metrics['reward_model_folds']:g} folds, as "
        f"{metrics['without_propensity']:,g} decisions had no propensity. On decisions that it had not seen: AUC "
        f"{auc:.2f} (95 % interval {low:.2f} to {high:.2f}; a constant has 0.50), correlation "
        f"{metrics['reward_model_correlation']:.2f}; AUC of the model before training "
        f"{metrics['starting_model_auc']:.2f}"
    )
