"""The decision test: is the treatment better, or worse, valid at every look.

Two test martingales over the matured observations of an experiment, one against "not better", one against "not worse".
The experiments' evaluation job calls `run_e_process`; `promotion.decide` reads the last values. `guardrails` runs the
same two steps, `compute_contrasts` and `bet`, around a margin instead of 0.

A test goes on from what an earlier call ended with (`Past`): the evaluation job reads fresh units only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]

CAP = 0.5
"""The most of the wealth that one unit may take, as a share of 1 / c_t, on the plain contrast."""
SHARP_CAP = 0.8
"""The same where the contrast is conditioned and rescaled, and therefore much smaller than its bound."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a test knows of its first `units` observations, in sums: all that it needs to go on with the next one.

    outcomes: sum of Y_i. contrasts, squares: sums of x_i and of x_i^2. treated: how many were treated.
    staked, spread: sums of z_i and of (z_i - mu_{i+1})^2, z_i being what is bet on: x_i, less a guardrail's margin.
    log_e_plus, log_e_minus: of a guardrail, those of harm and of non-inferiority.
    """

    units: int = 0
    outcomes: float = 0.0
    contrasts: float = 0.0
    squares: float = 0.0
    treated: int = 0
    staked: float = 0.0
    spread: float = 0.0
    log_e_plus: float = 0.0
    log_e_minus: float = 0.0


NOTHING = Past()
"""Before the first observation."""


@dataclass(frozen=True, slots=True)
class EProcess:
    """State after every observation; all arrays have the shape (..., n) of the input.

    log_e_plus: log E+, evidence that the treatment is better; P(sup E+ >= 1/a) <= a when it is not.
    log_e_minus: log E-, the same for worse.
    contrasts: x_t, an unbiased estimate of the difference treatment - control from one unit, in [-c_t, c_t].
    estimate: running mean of x_t, the difference of mean outcomes, in the outcome's own units.
    variance: running sample variance of x_t (divisor t - 1; nan at the first observation).
    treated: number of treated units so far.
    end: where the next call goes on, of an input of the shape (n,); None of one with leading axes.
    """

    log_e_plus: Floats
    log_e_minus: Floats
    contrasts: Floats
    estimate: Floats
    variance: Floats
    treated: NDArray[np.int64]
    end: Past | None

    @property
    def log_e_two_sided(self) -> Floats:
        """log((E+ + E-) / 2): an e-process for "no difference", an average of two being one again."""
        both: Floats = np.logaddexp(self.log_e_plus, self.log_e_minus) - np.log(2.0)
        return both


def run_e_process(
    arms: ArrayLike,
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    *,
    posteriors: ArrayLike | None = None,
    cap: float = CAP,
    past: Past = NOTHING,
) -> EProcess:
    """Betting e-processes on the centred inverse-probability contrast.

    arms: (..., n) of 0 (control) and 1 (treatment), in exposure order; leading axes are independent experiments.
    probabilities: P(treatment) of the unit's own phase, in (0, 1); it may differ from unit to unit, and may depend
        on the past. Broadcast to the shape of `arms`.
    outcomes: (..., n) in [0, 1], one per unit; `rescale` widens a range that is narrower.
    posteriors: (..., n) of `compute_posteriors`; takes the place of A_t in x_t, for the conditioned contrast.
    cap: in (0, 1), the largest bet as a share of 1 / c_t.
    past: `end` of the call with the units before these, n of the shape (n,); t counts on from it. Cutting a sequence
        anywhere changes nothing, since sums are taken in the same order.

        m_t  = (0.5 + sum_{i<t} Y_i) / t                         mean outcome of the past, shrunk to 0.5
        x_t  = (A_t - p_t) / (p_t (1 - p_t)) * (Y_t - m_t)       E[x_t | past] = E[Y | 1] - E[Y | 0]
        c_t  = 1 / min(p_t, 1 - p_t)                             |x_t| <= c_t
        mu_t = sum_{i<t} x_i / t,   s_t = (1 + sum_{i<t} (x_i - mu_{i+1})^2) / t
        l_t± = clip(±mu_t / (s_t + mu_t^2), 0, cap / c_t)
        E±   = prod_t (1 ± l_t± x_t)

    Bets use the past only, so each E is a nonnegative martingale (supermartingale) under its null whatever the
    distribution of Y; Ville's inequality bounds its supremum. Waudby-Smith & Ramdas, "Estimating means of bounded
    random variables by betting", JRSS-B 2024 (the bet is their approximate GRAPA); Waudby-Smith et al.,
    "Anytime-valid off-policy inference for contextual bandits", 2024 (the contrast).
    Raises ValueError for shapes that differ or values out of range.
    """
    if not np.isin(arms, (0, 1)).all():
        raise ValueError("arms must be 0 (control) or 1 (treatment)")
    x, bound = compute_contrasts(arms if posteriors is None else posteriors, probabilities, outcomes, past=past)
    stakes = bet(x, below=bound, above=bound, cap=cap, past=past)
    t = count_on(x, past)
    estimate = sum_on(x, past.contrasts) / t
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.maximum(sum_on(np.square(x), past.squares) - t * np.square(estimate), 0.0) / (t - 1.0)
    return EProcess(
        log_e_plus=stakes.log_e_plus,
        log_e_minus=stakes.log_e_minus,
        contrasts=x,
        estimate=estimate,
        variance=variance,
        treated=past.treated + np.asarray(arms, dtype=np.int64).cumsum(axis=-1),
        end=find_end(past, arms, outcomes, x, stakes),
    )


def compute_posteriors(
    arms: ArrayLike, probabilities: ArrayLike, log_control: ArrayLike, log_treatment: ArrayLike
) -> Floats:
    """P(treatment | what the unit met, its actions, its outcome), (..., n) in [0, 1]: what A_t is on average.

    log_control, log_treatment: log L0 and log L1, the sums over the unit's actions of the logarithm of each action's
        probability under either arm's policy, given what the unit had met; -inf where an arm would never have taken
        one of them. nan in either: not known, and the arm itself stands there.

        P_t = p_t L1 / (p_t L1 + (1 - p_t) L0)

    Put in the place of A_t it gives a contrast with the same mean and bounds and no larger variance (Rao-Blackwell),
    as long as the arm reaches the outcome, and whether the outcome is missing, through the actions alone. The idea is
    multiple importance sampling's balance heuristic (Veach & Guibas, SIGGRAPH 1995); Waudby-Smith et al., 2024, bet on
    such importance-weighted contrasts. Raises ValueError for shapes that differ.
    """
    arm = np.asarray(arms, dtype=np.float64)
    p = np.broadcast_to(np.asarray(probabilities, dtype=np.float64), arm.shape)
    control, treatment = np.asarray(log_control, dtype=np.float64), np.asarray(log_treatment, dtype=np.float64)
    if control.shape != arm.shape or treatment.shape != arm.shape:
        raise ValueError(f"arms {arm.shape} and log L {control.shape}, {treatment.shape} must have one shape")
    with np.errstate(invalid="ignore"):
        posterior = expit(logit(p) + treatment - control)
    return np.where(np.isnan(posterior), arm, posterior)


def rescale(outcomes: ArrayLike, low: float, high: float) -> Floats:
    """Outcomes of the attainable range [low, high] mapped to [0, 1]; what lies outside counts as its nearer end.

    The bet's bound is that of [0, 1]: outcomes that fill half of it would throw half of every bet away. The range has
    to be fixed before the first outcome is seen. Raises ValueError unless low < high.
    """
    if not low < high:
        raise ValueError(f"an attainable range wants low < high, not [{low}, {high}]")
    scaled: Floats = np.clip((np.asarray(outcomes, dtype=np.float64) - low) / (high - low), 0.0, 1.0)
    return scaled


def compute_contrasts(
    arms: ArrayLike, probabilities: ArrayLike, outcomes: ArrayLike, *, past: Past = NOTHING
) -> tuple[Floats, Floats]:
    """x_t and c_t of `run_e_process`, each (..., n): what one unit says of treatment - control, and |x_t| <= c_t.

    arms: of 0 and 1, or the posteriors that take their place. Other arguments as there.
    Raises ValueError for shapes that differ or values out of range.
    """
    arm = np.asarray(arms, dtype=np.float64)
    outcome = np.asarray(outcomes, dtype=np.float64)
    if arm.ndim == 0 or arm.shape != outcome.shape:
        raise ValueError(f"arms {arm.shape} and outcomes {outcome.shape} must have one shape (..., n)")
    p = np.broadcast_to(np.asarray(probabilities, dtype=np.float64), arm.shape)
    if not ((arm >= 0.0) & (arm <= 1.0)).all():
        raise ValueError("arms must be 0 (control) or 1 (treatment), or a probability of it")
    if not ((p > 0.0) & (p < 1.0)).all():
        raise ValueError("probabilities must lie strictly between 0 and 1")
    if not ((outcome >= 0.0) & (outcome <= 1.0)).all():
        raise ValueError("outcomes must lie in [0, 1]")
    past_mean = (0.5 + _before(sum_on(outcome, past.outcomes), past.outcomes)) / count_on(arm, past)
    return (arm - p) / (p * (1.0 - p)) * (outcome - past_mean), 1.0 / np.minimum(p, 1.0 - p)


@dataclass(frozen=True, slots=True)
class Stakes:
    """What `bet` won, (..., n): the logarithms of both wealths; and the sums that its next bets come from."""

    log_e_plus: Floats
    log_e_minus: Floats
    staked: Floats
    spread: Floats


def bet(z: Floats, *, below: Floats, above: Floats, cap: float = CAP, past: Past = NOTHING) -> Stakes:
    """Wealth after betting on E[z] > 0 and on E[z] < 0, each of the shape (..., n) of `z`.

    below, above: positive and known before z_t, with -below_t <= z_t <= above_t. The bets of `run_e_process`, with
    l_t+ <= cap / below_t and l_t- <= cap / above_t: no single unit takes more than the share `cap` of the wealth.
    """
    t = count_on(z, past)
    staked = sum_on(z, past.staked)
    shrunk = staked / (t + 1.0)
    spread = sum_on(np.square(z - shrunk), past.spread)
    mu, s = _before(staked, past.staked) / t, (1.0 + _before(spread, past.spread)) / t
    size = mu / (s + np.square(mu))
    log_plus = sum_on(np.log1p(np.clip(size, 0.0, cap / below) * z), past.log_e_plus)
    log_minus = sum_on(np.log1p(-np.clip(-size, 0.0, cap / above) * z), past.log_e_minus)
    return Stakes(log_plus, log_minus, staked, spread)


def find_end(past: Past, arms: ArrayLike, outcomes: ArrayLike, x: Floats, stakes: Stakes) -> Past | None:
    """What is known after the last observation of a call of the shape (n,); `past` where n is 0."""
    if x.ndim != 1:
        return None
    if x.size == 0:
        return past
    return Past(
        units=past.units + x.size,
        outcomes=float(sum_on(np.asarray(outcomes, dtype=np.float64), past.outcomes)[-1]),
        contrasts=float(sum_on(x, past.contrasts)[-1]),
        squares=float(sum_on(np.square(x), past.squares)[-1]),
        treated=past.treated + int(np.asarray(arms, dtype=np.int64).sum()),
        staked=float(stakes.staked[-1]),
        spread=float(stakes.spread[-1]),
        log_e_plus=float(stakes.log_e_plus[-1]),
        log_e_minus=float(stakes.log_e_minus[-1]),
    )


def count_on(series: Floats, past: Past) -> Floats:
    """t of each observation, (n,), the first one being past.units + 1."""
    return np.arange(past.units + 1, past.units + series.shape[-1] + 1, dtype=np.float64)


def sum_on(series: Floats, before: float) -> Floats:
    """Running sums that begin with `before`: the same additions in the same order as over the whole sequence."""
    start = np.full((*series.shape[:-1], 1), before)
    sums: Floats = np.concatenate([start, series], axis=-1).cumsum(axis=-1)[..., 1:]
    return sums


def _before(series: Floats, first: float) -> Floats:
    """The series one step earlier: what was known before each observation; `first` is what is known before any."""
    start = np.full((*series.shape[:-1], 1), first)
    earlier: Floats = np.concatenate([start, series[..., :-1]], axis=-1)[..., : series.shape[-1]]
    return earlier
