"""Sample-ratio mismatch: do the arms' sizes agree with the assignment probabilities, tested at every look.

The experiments' evaluation job calls `check_sample_ratio`; a mismatch means that the exposure log is broken, and
prevents promotion.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import gammaln

CONCENTRATION = 1000.0
HALT_BAYES_FACTOR = 1000.0


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """Units first exposed in one phase, by assigned arm; treatment_share in (0, 1) is that phase's own."""

    control: int
    treatment: int
    treatment_share: float


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """log_bayes_factor of "the shares are not those planned" against "they are"; mismatch at >= log 1000."""

    log_bayes_factor: float
    mismatch: bool


def compute_log_bayes_factor(
    control: int, treatment: int, treatment_share: float, concentration: float = CONCENTRATION
) -> float:
    """Log Bayes factor of a beta-binomial against the planned binomial; valid at every look.

    With a = k·p, b = k·(1 − p), n = n1 + n0 and k the concentration:

        log BF = log B(a + n1, b + n0) − log B(a, b) − n1·log p − n0·log(1 − p)

    Under the plan BF is a nonnegative martingale from 1, so P(ever >= 1000) <= 0.001. Lindon & Malek, "Anytime-valid
    inference for multinomial count data", NeurIPS 2022. Raises ValueError for negative counts or a share not in (0, 1).
    """
    if control < 0 or treatment < 0:
        raise ValueError("counts must not be negative")
    if not 0.0 < treatment_share < 1.0:
        raise ValueError(f"treatment_share must lie strictly between 0 and 1, got {treatment_share!r}")
    a, b = concentration * treatment_share, concentration * (1.0 - treatment_share)
    n = control + treatment
    return float(
        gammaln(concentration)
        - gammaln(a)
        - gammaln(b)
        + gammaln(a + treatment)
        + gammaln(b + control)
        - gammaln(concentration + n)
        - treatment * math.log(treatment_share)
        - control * math.log1p(-treatment_share)
    )


def check_sample_ratio(phases: Sequence[PhaseCount], halt: float = HALT_BAYES_FACTOR) -> SampleRatio:
    """The test over all phases: Bayes factors of disjoint units multiply."""
    total = sum(compute_log_bayes_factor(phase.control, phase.treatment, phase.treatment_share) for phase in phases)
    return SampleRatio(total, total >= math.log(halt))
