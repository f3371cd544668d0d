"""Runs the decision test over an experiment's rewarded units: the contrast that decides, and the plain one for
comparison.

`experiments` stores the results, the pages draw them. The experiment's fields `conditioned` and `rescaled` choose the
contrast (docs/experiments.md, docs/adr/0012).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models_registry.models import Arm, Experiment
from models_registry.statistics.e_process import (
    CAP,
    SHARP_CAP,
    EProcess,
    Floats,
    compute_posteriors,
    rescale,
    run_e_process,
)


class RewardedUnit(NamedTuple):
    """An observation with an outcome, in the order of `UNIT_COLUMNS`. The logarithms are of the products of its
    actions' probabilities under either arm, or None where an arm could not be asked about one of them."""

    outcome: float
    arm: str
    treatment_share: float
    log_l_control: float | None
    log_l_treatment: float | None


UNIT_COLUMNS = ("outcome", "exposure__arm", "exposure__phase__treatment_share", "log_l_control", "log_l_treatment")
"""What to ask of Observation, in exposure order."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Both e-processes, of n units each.

    deciding: the test that the promotion rule reads. plain: the one of the plain contrast. arms: (n,) of 0 and 1.
    scale: what a contrast of `deciding` is multiplied with to be in the outcome's own units; `plain` is in them.
    conditioned: how many units' contrasts stand on both arms' probabilities.
    """

    deciding: EProcess
    plain: EProcess
    arms: Floats
    scale: float
    conditioned: int


def run_tests(experiment: Experiment, units: Sequence[RewardedUnit]) -> Tests:
    """At least one unit, in exposure order."""
    outcomes, arms, shares, control, treatment = zip(*units, strict=True)
    treated = np.array([arm == Arm.TREATMENT for arm in arms], dtype=float)
    plain = run_e_process(treated, shares, outcomes)
    if not (experiment.conditioned or experiment.rescaled):
        return Tests(plain, plain, treated, 1.0, 0)
    low, high = experiment.outcome_low, experiment.outcome_high
    log_control, log_treatment = np.array(control, dtype=float), np.array(treatment, dtype=float)  # None becomes nan
    deciding = run_e_process(
        treated,
        shares,
        rescale(outcomes, low, high),
        posteriors=compute_posteriors(treated, shares, log_control, log_treatment) if experiment.conditioned else None,
        cap=SHARP_CAP if experiment.conditioned and experiment.rescaled else CAP,
    )
    known = ~np.isnan(log_control) & ~np.isnan(log_treatment)
    return Tests(deciding, plain, treated, high - low, int(known.sum()) if experiment.conditioned else 0)
