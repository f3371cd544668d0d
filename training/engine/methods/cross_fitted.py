"""A reward model of logged decisions, cross-fitted: what a prompt's fresh decisions are paid by comes from a model that
has seen neither this prompt's decisions nor those of any row that belongs together with it.

The model is that of the direct method (training.engine.methods.direct_method), and with the log's least and greatest
reward as lo and hi it pays

    pay(x, a) = lo + (hi − lo) · (η + (1 − 2η) q(a | x))

For each fold of training.engine.rows.folds, machines learn from the other folds, and so do the weights with which q
combines them and the starting policy: these are fitted on scores by machines that left out two folds, the row's own
and the one to be paid. Method `ppo` calls it where a log tells no propensities.

How good it is, is measured on the logged decisions, each by the model that has not seen it: the area under the ROC
curve (AUC) of pay for rewards above the log's mean, with a 95 % interval by clusters (Obuchowski 1997, "Nonparametric
analysis of clustered ROC curve data"), and the correlation of pay and reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.engine.attempt.events import PREPARING
from training.engine.methods.direct_method import (
    Floats,
    Places,
    combine,
    find_lessons,
    find_weights,
    read_features,
    score_by,
    what_acted,
)
from training.engine.methods.offline import Decisions
from training.engine.methods.online import Made
from training.engine.rows.folds import Folds, assign_folds
from training.engine.spec.refused import Refused
from training.engine.spec.settings import DirectMethod
from training.engine.updates.fit import kept_from

SETTINGS = DirectMethod()
FITS = math.comb(SETTINGS.folds, 2) + SETTINGS.folds
Z = 1.959963984540054
"""Two-sided 95 %."""
PAYS, QUALITY = "payments", "reward_model_quality"
"""In a checkpoint."""
UNGROUPED = (
    "the decisions are of too few groups (units or episodes) to keep each in one fold, so only those on the same or "
    "nearly the same prompt are kept together: the reward model may be worse for new groups than its quality says"
)


@dataclass(frozen=True, slots=True)
class Quality:
    """Of a cross-fitted reward model on the decisions that it learnt from, each by a fit that left it out. `auc_start`:
    that of the starting policy's own probability of the action."""

    auc: float
    low: float
    high: float
    correlation: float
    auc_start: float

    @property
    def beats_a_constant(self) -> bool:
        """Whether the whole interval of the AUC is above that of a constant, a half."""
        return self.low > 0.5

    def __str__(self) -> str:
        interval = f"95 % interval {self.low:.2f} to {self.high:.2f}"
        return f"AUC of {self.auc:.2f} ({interval}; a constant has 0.50) and a correlation of {self.correlation:.2f}"


@dataclass(frozen=True, slots=True)
class Payments:
    """`pays` (n, K): what each option of each row earns, on the CPU; of a replayed row the most that the log paid for
    its answer, and the least for the others. `without` of the decisions had no propensity."""

    pays: Tensor
    quality: Quality
    without: int

    def __call__(self, made: Sequence[Made]) -> list[float]:
        return [float(self.pays[one.row, one.place]) for one in made]

    @property
    def kept(self) -> dict[str, Tensor]:
        """For checkpoints: a resumed run does not fit the model again."""
        return {PAYS: self.pays, QUALITY: torch.tensor(astuple(self.quality), dtype=torch.float64)}

    @property
    def metrics(self) -> dict[str, float]:
        """For the run's result."""
        return {
            "without_propensity": float(self.without),
            "reward_model_folds": float(SETTINGS.folds),
            "reward_model_auc": self.quality.auc,
            "reward_model_auc_low": self.quality.low,
            "reward_model_auc_high": self.quality.high,
            "reward_model_correlation": self.quality.correlation,
            "starting_model_auc": self.quality.auc_start,
        }


def find_payments(decisions: Decisions) -> Payments:
    """Fits the reward model to all rows, which have a reward each, or takes up what an earlier attempt has kept; says
    how good it is. Call before the weights change. Raises Refused where the model is not shown to be better than a
    constant, or the rows cannot be parted."""
    attempt = decisions.attempt
    pays, told = kept_from(attempt, PAYS), kept_from(attempt, QUALITY)
    if pays is None or told is None:
        pays, quality = _fit(decisions, decisions.score())
    else:
        quality = Quality(*told.tolist())
    without = sum(row.propensity is None for row in decisions.rows)
    attempt.events.warn(
        f"{without:,} of {decisions.logged:,} decisions have no propensity: the model acts afresh on all prompts, "
        f"paid by a reward model of the same decisions, cross-fitted in {SETTINGS.folds} folds. On decisions that it "
        f"has not seen, the reward model has an {quality}"
    )
    if not quality.beats_a_constant:
        raise Refused(
            "the reward model that would pay for fresh decisions is not shown to be better than a constant on "
            f"decisions that it has not seen ({quality}), so ppo would learn noise; collect more verdicts, or "
            "decisions with propensities"
        )
    if quality.auc <= quality.auc_start:
        attempt.events.warn(
            "the reward model tells good decisions from bad ones no better than the starting model's own probabilities "
            f"(AUC {quality.auc:.2f} against {quality.auc_start:.2f}): expect little to be learnt from this log"
        )
    return Payments(pays, quality, without)


def _fit(decisions: Decisions, start: Tensor) -> tuple[Tensor, Quality]:
    """`start` (n, K): log-probabilities of the starting policy."""
    attempt = decisions.attempt
    folds = assign_folds(decisions.rows, SETTINGS.folds, attempt.spec.seed)
    if folds is None:
        raise Refused(
            f"the reward model that would pay for fresh decisions cannot be cross-fitted: there are fewer than "
            f"{SETTINGS.folds} prompts that differ"
        )
    if not folds.by_group:
        attempt.events.warn(UNGROUPED)
    reward = np.array([row.reward for row in decisions.rows], dtype=np.float64)
    low, high = float(reward.min()), float(reward.max())
    base, action = what_acted(decisions, start).double().numpy(), decisions.actions.cpu().numpy()
    fits = iter(range(FITS))

    def begin_fit() -> None:
        attempt.stop.check()
        attempt.events.progress(next(fits), FITS, "fitting the reward model", PREPARING)

    q = guess_apart(
        [one for one in read_features(decisions) if one is not None],
        [row.action for row in decisions.rows],
        (reward - low) / (high - low),
        decisions.options,
        base=base,
        offered=decisions.offered.numpy(),
        action=action,
        folds=folds,
        # Replayed rows taught the base, which knows them by heart: they say nothing of how far to trust it.
        weigh=np.arange(len(reward)) < decisions.logged,
        seed=attempt.spec.seed,
        begin_fit=begin_fit,
    )
    noise = SETTINGS.feedback_noise
    pays = low + (high - low) * (noise + (1 - 2 * noise) * q)
    n = decisions.logged
    place = np.arange(n), action[:n]
    quality = measure_quality(pays[place], base[place], reward[:n], folds.clusters[:n])
    pays[n:] = low
    pays[np.arange(n, len(pays)), action[n:]] = high
    return torch.from_numpy(pays).float(), quality


def guess_apart(
    features: Sequence[Any],
    actions: Sequence[str],
    rewards: Floats,
    options: Sequence[tuple[str, ...]],
    *,
    base: Floats,
    offered: NDArray[np.bool_],
    action: Places,
    folds: Folds,
    weigh: NDArray[np.bool_],
    seed: int,
    begin_fit: Callable[[], None] = lambda: None,
) -> Floats:
    """q (n, K) as of the direct method, each row's by what the other folds say alone: neither machines nor weights know
    its fold.

    `features`: (n, f) each; `rewards` (n,) in [0, 1]; `base` (n, K) log-probabilities; `action` (n,) places of the
    actions; `weigh` (n,) which rows the weights are fitted on. `begin_fit` is called before each fit, and may stop it.
    """

    def score(without: set[int], mine: Places) -> list[Floats]:
        begin_fit()
        rest = np.flatnonzero(~np.isin(folds.of, list(without)))
        lessons = rest[find_lessons([actions[int(row)] for row in rest], rewards[rest])]
        return [score_by(one, actions, rewards, options, lessons=lessons, mine=mine, seed=seed) for one in features]

    rows_of = [np.flatnonzero(folds.of == fold) for fold in range(folds.count)]
    inner = np.zeros((folds.count, len(features), *base.shape))
    """[fold, feature]: scores of the rows of the other folds, by machines that know neither their fold nor this one."""
    for one, other in combinations(range(folds.count), 2):
        mine = np.concatenate([rows_of[one], rows_of[other]])
        for place, scores in enumerate(score({one, other}, mine)):
            inner[other, place, rows_of[one]] = scores[: len(rows_of[one])]
            inner[one, place, rows_of[other]] = scores[len(rows_of[one]) :]
    q = np.zeros(base.shape)
    for fold, mine in enumerate(rows_of):
        rest = np.flatnonzero((folds.of != fold) & weigh)
        known = [scores[rest] for scores in inner[fold]]
        weights = find_weights(known, base[rest], offered[rest], action[rest], rewards[rest], SETTINGS.feedback_noise)
        q[mine] = combine(score({fold}, mine), base[mine], offered[mine], weights)
    return q


def measure_quality(pay: Floats, start: Floats, reward: Floats, clusters: Places) -> Quality:
    """`pay` and `start` (n,): what the reward model and the starting policy say of the action that was taken, and its
    `reward`, of which some are above the mean and some are not."""
    good = reward > reward.mean()
    auc, error = area(pay, good, clusters)
    correlation = float(np.corrcoef(pay, reward)[0, 1]) if np.ptp(pay) > 0 else 0.0
    low, high = max(0.0, auc - Z * error), min(1.0, auc + Z * error)
    return Quality(auc, low, high, correlation, area(start, good, clusters)[0])


def area(scores: Floats, good: NDArray[np.bool_], clusters: Places) -> tuple[float, float]:
    """The area under the ROC curve, the chance that a good row scores higher than another, equal ones counting half;
    and its standard error, from each cluster's part in it. All (n,); both kinds of rows must be there."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    above = np.empty(len(scores))
    for kind in (good, ~good):
        # A row's rank among all, less that among its own kind: how many of the other kind it scores higher than.
        above[kind] = (ranks[kind] - rankdata(scores[kind])) / np.count_nonzero(~kind)
    above[~good] = 1 - above[~good]
    found = float(above[good].mean())
    part = (above - found) / np.where(good, np.count_nonzero(good), np.count_nonzero(~good))
    sums = np.bincount(clusters, weights=part)
    count = len(np.unique(clusters))
    return found, math.sqrt(count / (count - 1) * float((sums**2).sum())) if count > 1 else math.inf
