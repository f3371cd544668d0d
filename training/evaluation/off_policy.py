"""Estimates what a policy would earn from decisions that another policy made, and whether that allows a canary.

Inputs: each decision's reward, the probability with which its action was chosen, and the probability with which the
other policy would have chosen it. `estimate_value` gives the four usual estimates; `check_off_policy_gate` decides
whether a model version may meet a few users. It never decides a promotion: that takes an experiment. PURE: plain arrays
in, frozen values out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from models_registry.statistics.intervals import Interval, clustered_mean

Floats = NDArray[np.float64]

MIN_EXPLORATION = 0.05
MIN_EFFECTIVE = 200
MIN_EFFECTIVE_SHARE = 0.05
MAX_WEIGHT_SHARE = 0.05
MAX_WEIGHT_ERRORS = 4.0
ONE_GROUP = "All decisions belong to one group, so the spread is unknown."

# Softmaxes in single precision may add up to a hair more than 1.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Log:
    """n decisions whose reward is known; every array has the shape (n,).

    reward: in [0, 1].
    propensity: μ(a|x) in (0, 1], the probability that the acting policy gave its action; nan where it was not logged.
    target: π(a|x) in [0, 1], the probability of the same action under the policy in question.
    q_logged: q(x, a), a model's guess of the expected reward of the logged action, finite.
    q_target: Σ_a π(a|x) q(x, a), finite. Neither guess may come from a model that was fitted to these very rewards;
        `cross_fit_by_probability` makes such guesses from the log itself.
    epsilon: the log's exploration share in [0, 1], spread evenly over the options; the smallest one where decisions
        differ; None where unknown.
    least: the smallest μ(a'|x) over the actions with π(a'|x) > 0, in [0, 1]; None where unknown.
    """

    reward: Floats
    propensity: Floats
    target: Floats
    q_logged: Floats
    q_target: Floats
    epsilon: float | None = None
    least: Floats | None = None


@dataclass(frozen=True, slots=True)
class Estimates:
    """Values of the policy in question, in units of reward, each with its 95 % interval, and what they rest on.

    ips, snips, direct, doubly_robust: see `estimate_value`. logged: the mean reward, the acting policy's own value.
    effective_sample_size: (Σ w)² / Σ w², in [0, n]: as many decisions of its own would have said about as much.
    mean_weight: close to 1 when the propensities are right. largest_weight_share: max w / Σ w, in [0, 1].

    What cannot be known has the mean nan and the bounds -inf and inf: all that needs weights where a propensity is
    missing (the three figures on weights are nan then), `snips` where every weight is 0.
    """

    ips: Interval
    snips: Interval
    direct: Interval
    doubly_robust: Interval
    logged: Interval
    effective_sample_size: float
    mean_weight: float
    largest_weight_share: float
    n: int


@dataclass(frozen=True, slots=True)
class OffPolicyGate:
    """Whether a log allows a canary.

    passed: no refusal, and lower > 0. difference: new - logged, doubly robust and paired, with its 95 % interval.
    lower: the one-sided 95 % lower bound of that difference; -inf where nothing is known of it.
    refusals: why this log cannot answer, a sentence each; empty when it can, whatever the answer.
    """

    passed: bool
    difference: Interval
    lower: float
    refusals: tuple[str, ...]
    estimates: Estimates


def estimate_value(log: Log, groups: Sequence[object] | None = None) -> Estimates:
    """Four estimates of the policy's value, from the weights w_i = π(a_i|x_i) / μ(a_i|x_i), never clipped.

        ips             1/n Σ w_i r_i                                    unbiased where μ > 0 on the support of π
        snips           Σ w_i r_i / Σ w_i                                unmoved by a common factor; small bias
        direct          1/n Σ q_target_i                                 as biased as q
        doubly_robust   1/n Σ (q_target_i + w_i (r_i - q_logged_i))      unbiased where either μ or q is right

    groups: n hashable labels, decisions of one label (user, item, episode) may depend on each other; None, or a label
    None, is a decision by itself. Every interval is `clustered_mean`'s, that of snips by linearisation; they may leave
    [0, 1]. The interval of `direct` knows nothing of the error of q.

    Horvitz & Thompson 1952 (ips); Swaminathan & Joachims, "The self-normalized estimator for counterfactual learning",
    NeurIPS 2015, section 4 (snips); Dudík, Langford & Li, "Doubly robust policy evaluation and learning", ICML 2011,
    section 3 (direct, doubly_robust); Kish, "Survey Sampling", 1965, section 8.2 (effective sample size).
    Raises ValueError that names every shape and range at fault, and for an empty log.
    """
    log = _check(log, groups)
    return _estimate(log, _label(groups, log.reward.size))


def check_off_policy_gate(log: Log, groups: Sequence[object] | None = None) -> OffPolicyGate:
    """May the policy in question meet a few users? Passed when the log can answer and lower > 0.

        z_i = q_target_i + w_i (r_i - q_logged_i) - r_i          difference = mean z,  lower = mean z - t_{G-1}(0.95) se

    The log cannot answer, each with its own sentence in `refusals`:

        a propensity is missing
        the exploration is unknown, ε < 0.05, or least = 0 somewhere; where only `least` is known: least < 20 / n, an
            action of the target so rare that seen once it would carry more than 5 % of the weight
        effective sample size < max(200, 5 % of n)
        max w / Σ w > 5 %
        |mean w - 1| > 4 clustered standard errors: the propensities are not those of the policy that acted
        fewer than two groups

    Dudík, Langford & Li 2011, section 3 (z); the rules as simulated in `benchmarks/off_policy.py`. With no difference
    at all the bound alone passes 5 % of logs: a canary is cheap, a promotion needs the experiment. Arguments and errors
    as `estimate_value`.
    """
    log = _check(log, groups)
    labels = _label(groups, log.reward.size)
    estimates = _estimate(log, labels)
    refusals = _find_refusals(log, labels, estimates)
    if np.isnan(log.propensity).any():
        return OffPolicyGate(False, _unknown(labels), -math.inf, refusals, estimates)
    z = log.q_target + log.target / log.propensity * (log.reward - log.q_logged) - log.reward
    # The lower end of a two-sided 90 % interval is the one-sided 95 % bound.
    lower = clustered_mean(z, labels, confidence=0.90).low
    return OffPolicyGate(not refusals and lower > 0.0, clustered_mean(z, labels), lower, refusals, estimates)


def compare_with_own(own: ArrayLike, logged: ArrayLike, groups: Sequence[object] | None = None) -> OffPolicyGate:
    """The same question where the policy's own action is known in each of the logged states, with its reward.

    own, logged: (n,) rewards in [0, 1] of the policy's action, drawn as it would act, and of what was done. Nothing is
    weighted: difference = mean (own - logged), `direct` is the mean of `own` and each decision one of the policy's own,
    so `ips` and `snips` are not known. The log cannot answer with fewer than 200 decisions, or fewer than two groups.
    Raises ValueError as `clustered_mean` does.
    """
    mine, theirs = np.asarray(own, np.float64), np.asarray(logged, np.float64)
    n = mine.size
    labels = _label(groups, n)
    value, unknown = clustered_mean(mine, labels), _unknown(labels)
    refusals = []
    if n < MIN_EFFECTIVE:
        refusals.append(f"{n:,} decisions can be compared; at least {MIN_EFFECTIVE} are needed.")
    if labels.max() == 0:
        refusals.append(ONE_GROUP)
    estimates = Estimates(unknown, unknown, value, value, clustered_mean(theirs, labels), float(n), 1.0, 1.0 / n, n)
    lower = clustered_mean(mine - theirs, labels, confidence=0.90).low
    difference = clustered_mean(mine - theirs, labels)
    return OffPolicyGate(not refusals and lower > 0.0, difference, lower, tuple(refusals), estimates)


def cross_fit_by_probability(
    thoughts: Sequence[ArrayLike],
    policies: Sequence[ArrayLike],
    actions: ArrayLike,
    rewards: ArrayLike,
    groups: Sequence[object] | None = None,
    *,
    ridge: float = 1.0,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """`Log.q_logged` and `Log.q_target`, each (n,), where options are many or differ: one regression for all of them.

    thoughts: n rows (k_i,) in [0, 1], what a model that has not learnt these rewards thinks of each option. policies:
    n rows (k_i,), π(a|x). actions: (n,) places of the logged ones. rewards: (n,) in [0, 1]. Half of the groups guess
    for the other half, so no decision's own reward is in its guess. With m the mean reward of the half that is fitted,

        z(x, a) = [1, p(a|x), max(log p(a|x), log 10⁻⁶), max_b p(b|x)]
        β = (Z'Z + ridge I)^-1 Z'(r - m)                  q(x, a) = clip(m + z(x, a) β, 0, 1)

    since an action is the likelier right the surer the model is of it. What z misses costs precision, never bias.

    Chernozhukov et al., "Double/debiased machine learning", Econometrics Journal 2018, definition 3.1 (cross-fitting).
    Raises ValueError for fewer than two groups.
    """
    action, reward = np.asarray(actions), np.asarray(rewards, np.float64)
    labels = _label(groups, reward.size)
    count = int(labels.max()) + 1
    if count < 2:
        raise ValueError("cross-fitting needs at least two groups")
    sizes = np.array([len(row) for row in thoughts])  # type: ignore[arg-type]
    starts = np.cumsum(sizes) - sizes
    p, policy = (np.concatenate([np.asarray(row, np.float64) for row in rows]) for rows in (thoughts, policies))
    z = np.column_stack(
        [np.ones(p.size), p, np.log(np.maximum(p, 1e-6)), np.repeat(np.maximum.reduceat(p, starts), sizes)]
    )
    logged = starts + action
    half = np.random.default_rng(seed).permutation(count) < count // 2
    q = np.empty(p.size)
    for fitted in (half[labels], ~half[labels]):
        x, base = z[logged[fitted]], float(reward[fitted].mean())
        beta = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ (reward[fitted] - base))
        guessed = np.repeat(~fitted, sizes)
        q[guessed] = np.clip(base + z[guessed] @ beta, 0.0, 1.0)
    return q[logged], np.add.reduceat(policy * q, starts)


def _estimate(log: Log, labels: NDArray[np.int64]) -> Estimates:
    n = log.reward.size
    direct, logged = clustered_mean(log.q_target, labels), clustered_mean(log.reward, labels)
    unknown = _unknown(labels)
    if np.isnan(log.propensity).any():
        return Estimates(unknown, unknown, direct, unknown, logged, math.nan, math.nan, math.nan, n)
    weight = log.target / log.propensity
    total = float(weight.sum())
    snips = unknown
    if total > 0.0:
        ratio = float((weight * log.reward).sum()) / total
        # The added term has the mean 0 and the spread of the ratio: its influence function.
        snips = clustered_mean(ratio + weight * (log.reward - ratio) * (n / total), labels)
    return Estimates(
        ips=clustered_mean(weight * log.reward, labels),
        snips=snips,
        direct=direct,
        doubly_robust=clustered_mean(log.q_target + weight * (log.reward - log.q_logged), labels),
        logged=logged,
        effective_sample_size=total**2 / float((weight**2).sum()) if total > 0.0 else 0.0,
        mean_weight=total / n,
        largest_weight_share=float(weight.max()) / total if total > 0.0 else 0.0,
        n=n,
    )


def _find_refusals(log: Log, labels: NDArray[np.int64], estimates: Estimates) -> tuple[str, ...]:
    n = estimates.n
    found = []
    missing = int(np.isnan(log.propensity).sum())
    if missing:
        found.append(
            f"{missing:,} of {n:,} decisions have no propensity, so the probability of their action is not known."
        )
    found += _find_exploration_refusals(log, n)
    if not missing:
        needed = max(float(MIN_EFFECTIVE), MIN_EFFECTIVE_SHARE * n)
        if estimates.effective_sample_size < needed:
            found.append(
                f"The {n:,} decisions are worth {estimates.effective_sample_size:,.0f} of the new policy's own;"
                f" at least {needed:,.0f} are needed."
            )
        if estimates.largest_weight_share > MAX_WEIGHT_SHARE:
            found.append(
                f"One decision carries {estimates.largest_weight_share:.1%} of the total weight;"
                f" at most {MAX_WEIGHT_SHARE:.0%} is allowed."
            )
        off = _count_errors(log.target / log.propensity, labels)
        if off > MAX_WEIGHT_ERRORS:
            found.append(
                f"The mean weight is {estimates.mean_weight:.3f}, {off:.1f} standard errors from 1:"
                " the logged propensities are not those of the policy that acted, or they miss actions."
            )
    if labels.max() == 0:
        found.append(ONE_GROUP)
    return tuple(found)


def _find_exploration_refusals(log: Log, n: int) -> list[str]:
    if log.epsilon is None and log.least is None:
        return ["How much the log explored is not known."]
    found = []
    if log.epsilon is not None and log.epsilon < MIN_EXPLORATION - 1e-9:
        found.append(f"The log explored with a share of {log.epsilon:.3g}; at least {MIN_EXPLORATION} is needed.")
    if log.least is not None:
        never = int((log.least <= 0.0).sum())
        floor = 1.0 / (MAX_WEIGHT_SHARE * n)
        if never:
            found.append(
                f"In {never:,} of {n:,} decisions the new policy may take an action that the log's policy never takes."
            )
        elif log.epsilon is None and float(log.least.min()) < floor:
            found.append(
                f"Some action of the new policy has a probability of only {log.least.min():.2g} under the log's;"
                f" at least {floor:.2g} is needed with {n:,} decisions."
            )
    return found


def _count_errors(weight: Floats, labels: NDArray[np.int64]) -> float:
    """How many clustered standard errors the mean weight lies from 1; 0 with one group: that has its own refusal."""
    found = clustered_mean(weight, labels)
    away = abs(found.mean - 1.0)
    if found.clusters < 2 or away < _ROUNDING:
        return 0.0
    error = (found.high - found.mean) / float(stdtrit(found.clusters - 1, 0.975))
    return away / error if error > 0.0 else math.inf


def _unknown(labels: NDArray[np.int64]) -> Interval:
    return Interval(math.nan, -math.inf, math.inf, labels.size, int(labels.max()) + 1)


def _label(groups: Sequence[object] | None, n: int) -> NDArray[np.int64]:
    """(n,) integers from 0 without gaps, equal for decisions of one group; labels need be hashable, not sortable."""
    if groups is None:
        return np.arange(n)
    codes: dict[object, int] = {}
    # A position is the key of a decision without a group: no other decision has it, and no label equals it.
    keys = [(i, None) if group is None else (None, group) for i, group in enumerate(groups)]
    return np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)


def _check(log: Log, groups: Sequence[object] | None) -> Log:
    """The log with arrays of float64, or ValueError with every fault."""
    log = Log(
        reward=np.asarray(log.reward, np.float64),
        propensity=np.asarray(log.propensity, np.float64),
        target=np.asarray(log.target, np.float64),
        q_logged=np.asarray(log.q_logged, np.float64),
        q_target=np.asarray(log.q_target, np.float64),
        epsilon=log.epsilon,
        least=None if log.least is None else np.asarray(log.least, np.float64),
    )
    if log.reward.ndim != 1 or log.reward.size == 0:
        raise ValueError(f"reward must have the shape (n,) with n at least 1, got {log.reward.shape}")
    shape = log.reward.shape
    most = 1.0 + _ROUNDING
    sound: dict[str, tuple[Floats, Callable[[Floats], NDArray[np.bool_]], str]] = {
        "reward": (log.reward, lambda v: (v >= 0.0) & (v <= most), "lie in [0, 1]"),
        "propensity": (log.propensity, lambda v: np.isnan(v) | ((v > 0.0) & (v <= most)), "lie in (0, 1] or be nan"),
        "target": (log.target, lambda v: (v >= 0.0) & (v <= most), "lie in [0, 1]"),
        "q_logged": (log.q_logged, np.isfinite, "be finite"),
        "q_target": (log.q_target, np.isfinite, "be finite"),
    }
    if log.least is not None:
        sound["least"] = (log.least, lambda v: (v >= 0.0) & (v <= most), "lie in [0, 1]")
    faults = []
    for name, (values, holds, rule) in sound.items():
        if values.shape != shape:
            faults.append(f"{name} must have the shape {shape} of reward, got {values.shape}")
        elif not (good := holds(values)).all():
            faults.append(f"{name} must {rule}; {int((~good).sum())} of {values.size} do not")
    if log.epsilon is not None and not 0.0 <= log.epsilon <= 1.0:
        faults.append(f"epsilon must lie in [0, 1] or be None, got {log.epsilon!r}")
    if groups is not None and len(groups) != log.reward.size:
        faults.append(f"groups must have one label a decision, got {len(groups)} for {log.reward.size}")
    if faults:
        raise ValueError("; ".join(faults))
    return log
