"""The futility test: is the treatment better by less than what is worth finding? Valid at every look.

`models_registry.experiments.evidence` runs it over the contrasts of the decision test; `promotion.decide` reads the
last value.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models_registry.statistics.e_process import CAP, NOTHING, Floats, Past, bet


@dataclass(frozen=True, slots=True)
class FutilityProcess:
    """log_e_futile: (..., n), log E that the treatment is better by less than the effect. end: where the next call goes
    on, of an input of the shape (n,); None of one with leading axes."""

    log_e_futile: Floats
    end: Past | None


def run_futility(
    contrasts: Floats, probabilities: ArrayLike, *, effect: float, cap: float = CAP, past: Past = NOTHING
) -> FutilityProcess:
    """Bets that the difference of the arms is below `effect`.

    contrasts: (..., n) of `e_process.run_e_process`, x_t with E[x_t | past] = D, the true difference, |x_t| <= c_t.
    probabilities: P(treatment) of the unit's own phase, in (0, 1), broadcast to the shape of `contrasts`.
    effect: the smallest difference d that is worth finding, above 0, in the unit of the contrasts.
    cap: as in `run_e_process`. past: `end` of the call with the units before these.

        E_futile = prod_t (1 - l_t (x_t - d)),   l_t <= cap / c_t,   c_t = 1 / min(p_t, 1 - p_t)      null: D >= d

    P(sup E_futile >= 1/a) <= a when the treatment is better by d or more: that is all the power which stopping at 1/a
    can cost. The differences whose E has not reached 1/a are a confidence sequence; E_futile says whether it has left d
    behind.

    Stopping never adds a false promotion. P(E+ ever reaches 1/b) <= b holds for the whole path, with the path cut at
    any moment as well: what is cut off can only hold further promotions. So no bound of the promotion has to pay for
    it, unlike a futility bound that is "binding" in group-sequential designs.

    Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 2024.
    Raises ValueError unless effect > 0.
    """
    if not effect > 0.0:
        raise ValueError(f"effect must be above 0, not {effect}")
    p = np.broadcast_to(np.asarray(probabilities, dtype=np.float64), contrasts.shape)
    bound = 1.0 / np.minimum(p, 1.0 - p)
    # c_t bounds x_t - d from above as well, and stays positive for an effect that no outcome could reach.
    stakes = bet(contrasts - effect, below=bound + effect, above=bound, cap=cap, past=past)
    end = None
    if contrasts.ndim == 1:
        end = past
        if contrasts.size:
            end = Past(
                units=past.units + contrasts.size,
                staked=float(stakes.staked[-1]),
                spread=float(stakes.spread[-1]),
                log_e_plus=float(stakes.log_e_plus[-1]),
                log_e_minus=float(stakes.log_e_minus[-1]),
            )
    return FutilityProcess(stakes.log_e_minus, end)
