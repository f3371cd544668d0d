"""The guardrail test: is the treatment at most a margin worse than control in a measure?

Two test martingales on either side of the margin, one for "non-inferior", one for "harmed", valid at every look.
`models_registry.experiments.guardrails` runs them over the matured units; `promotion.decide` reads the last values.
"""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from models_registry.statistics.e_process import (
    NOTHING,
    Floats,
    Past,
    bet,
    compute_contrasts,
    count_on,
    find_end,
    sum_on,
)


@dataclass(frozen=True, slots=True)
class GuardrailProcess:
    """State after every observation; all arrays have the shape (..., n) of the input.

    log_e_non_inferior: log E that the treatment is worse by less than the margin; P(sup E >= 1/a) <= a when it is
        worse by the margin or more.
    log_e_harm: log E that it is worse by more than the margin; P(sup E >= 1/a) <= a when it is worse by at most that.
    estimate: running estimate of treatment - control, in the measure's own units; positive is worse.
    end: where the next call goes on, of an input of the shape (n,); None of one with leading axes.
    """

    log_e_non_inferior: Floats
    log_e_harm: Floats
    estimate: Floats
    end: Past | None


def run_guardrail(
    arms: ArrayLike, probabilities: ArrayLike, measures: ArrayLike, *, margin: float, past: Past = NOTHING
) -> GuardrailProcess:
    """The decision test of `e_process.run_e_process`, with the margin in the place of 0.

    arms: (..., n) of 0 (control) and 1 (treatment), in exposure order; leading axes are independent experiments.
    probabilities: P(treatment) of the unit's own phase, in (0, 1), broadcast to the shape of `arms`.
    measures: (..., n) in [0, 1], one per unit, HIGHER IS WORSE: 0/1, or a share of the unit's decisions.
    margin: the worsening d that is tolerated, in (0, 1), in the measure's own units (0.01 = one point).
    past: `end` of the call with the units before these.

        x_t  = contrast of the measure, E[x_t | past] = D, the true worsening, |x_t| <= c_t    (`compute_contrasts`)
        y_t  = x_t - d                               -(c_t + d) <= y_t <= c_t - d, and c_t >= 2 > d
        E_harm         = prod_t (1 + l_t+ y_t),   l_t+ <= 1 / (2 (c_t + d))      null: D <= d
        E_non_inferior = prod_t (1 - l_t- y_t),   l_t- <= 1 / (2 (c_t - d))      null: D >= d

    Written for 1 - measure, where higher is better, x_t changes its sign and E_non_inferior is the E+ of the
    contrast raised by d. Two equal arms give it about d^2 / (2 s^2) a unit, s^2 the variance of x; where the measure
    is 0 throughout, log(1 + d / (2 (c - d))): with c = 2 and d = 0.01 some 1,200 units to E = 20, with d = 0.05
    some 250. Source: Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 2024,
    whose martingales test any mean m, not only 0.
    Raises ValueError for shapes that differ or values out of range.
    """
    if not 0.0 < margin < 1.0:
        raise ValueError(f"margin must lie strictly between 0 and 1, not {margin}")
    x, bound = compute_contrasts(arms, probabilities, measures, past=past)
    stakes = bet(x - margin, below=bound + margin, above=bound - margin, past=past)
    return GuardrailProcess(
        log_e_non_inferior=stakes.log_e_minus,
        log_e_harm=stakes.log_e_plus,
        estimate=sum_on(x, past.contrasts) / count_on(x, past),
        end=find_end(past, arms, measures, x, stakes),
    )
