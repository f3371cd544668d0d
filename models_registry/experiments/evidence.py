"""The decision test of an experiment as it goes on: the contrast that decides, the plain one beside it, and guardrails.

`looks` hands in what has matured since the last look, and stores what these tests ended with (`Comparison`) for the
next; nothing is read twice. The experiment's fields `conditioned` and `rescaled` choose the contrast
(docs/experiments.md, docs/adr/0012).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from models_registry.experiments.exploring import ExploredUnit, Tallies, go_on_exploring
from models_registry.experiments.guardrails import MeasuredUnit, go_on_with_guardrails, read_guardrails
from models_registry.models import Arm, Experiment
from models_registry.statistics.e_process import (
    CAP,
    NOTHING,
    SHARP_CAP,
    Floats,
    Past,
    compute_posteriors,
    rescale,
    run_e_process,
)
from models_registry.statistics.futility import run_futility
from models_registry.statistics.intervals import Interval, display_interval


class ObservedUnit(NamedTuple):
    """A matured unit, in the order of `UNIT_COLUMNS`. `outcome` is None where nothing was rewarded. The logarithms are
    of the products of its actions' probabilities under either arm, or None where an arm could not be asked about one
    of them. guardrails: its measures by name. secondary, slices: what only a look knows (`exploring.ExploredUnit`)."""

    outcome: float | None
    arm: str
    treatment_share: float
    log_l_control: float | None
    log_l_treatment: float | None
    guardrails: Mapping[str, float]
    secondary: Mapping[str, float] = {}
    slices: Mapping[str, str] = {}


UNIT_COLUMNS = (
    "outcome",
    "exposure__arm",
    "exposure__phase__treatment_share",
    "log_l_control",
    "log_l_treatment",
    "guardrails",
)
"""What to ask of Observation, in exposure order."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that the tests of a treatment against the control know of the units so far (`statistics.e_process.Past`).

    deciding: what the promotion rule reads. plain: the plain contrast, in the outcome's own units. guardrails: by
    measure. conditioned: how many units' contrasts stand on both arms' probabilities. treated_outcomes: the sum of the
    treated units' outcomes. explored: what decides nothing. futility: of an experiment that may be given up.
    """

    deciding: Past = NOTHING
    plain: Past = NOTHING
    guardrails: dict[str, Past] = field(default_factory=dict)
    conditioned: int = 0
    treated_outcomes: float = 0.0
    explored: Tallies = field(default_factory=Tallies)
    futility: Past = NOTHING

    def mean_outcomes(self) -> dict[str, float | None]:
        """The mean outcome by arm; None for an arm without any."""
        treated, units = self.plain.treated, self.plain.units
        control = self.plain.outcomes - self.treated_outcomes
        return {
            Arm.CONTROL.value: control / (units - treated) if units > treated else None,
            Arm.TREATMENT.value: self.treated_outcomes / treated if treated else None,
        }


def read_comparison(experiment: Experiment) -> Comparison:
    """What `store_comparison` left."""
    return msgspec.convert(experiment.running, Comparison)


def store_comparison(experiment: Experiment, comparison: Comparison) -> None:
    """Puts it on the row, which the caller saves."""
    experiment.running = msgspec.to_builtins(comparison)


@dataclass(frozen=True, slots=True)
class Step:
    """What a look has added. log_e_plus, log_e_minus: (n,), the deciding test after each unit with an outcome."""

    comparison: Comparison
    log_e_plus: Floats
    log_e_minus: Floats


def go_on(experiment: Experiment, comparison: Comparison, units: Sequence[ObservedUnit]) -> Step:
    """The tests after `units`, in exposure order, which come after those that `comparison` knows."""
    rewarded = [unit for unit in units if unit.outcome is not None]
    measured = [MeasuredUnit(unit.arm == Arm.TREATMENT, unit.treatment_share, unit.guardrails) for unit in units]
    guardrails = go_on_with_guardrails(read_guardrails(experiment.guardrails), measured, comparison.guardrails)
    treated = np.array([unit.arm == Arm.TREATMENT for unit in rewarded], dtype=float)
    shares = np.array([unit.treatment_share for unit in rewarded], dtype=float)
    outcomes = np.array([unit.outcome for unit in rewarded], dtype=float)
    # None becomes nan
    log_control = np.array([unit.log_l_control for unit in rewarded], dtype=float)
    log_treatment = np.array([unit.log_l_treatment for unit in rewarded], dtype=float)
    plain = run_e_process(treated, shares, outcomes, past=comparison.plain)
    deciding, conditioned, cap = plain, 0, CAP
    if experiment.conditioned or experiment.rescaled:
        posteriors = None
        if experiment.conditioned:
            posteriors = compute_posteriors(treated, shares, log_control, log_treatment)
            conditioned = int((~np.isnan(log_control) & ~np.isnan(log_treatment)).sum())
        cap = SHARP_CAP if experiment.conditioned and experiment.rescaled else CAP
        deciding = run_e_process(
            treated,
            shares,
            rescale(outcomes, experiment.outcome_low, experiment.outcome_high),
            posteriors=posteriors,
            cap=cap,
            past=comparison.deciding,
        )
    assert deciding.end is not None and plain.end is not None  # of one sequence
    futility = comparison.futility
    if experiment.futility_e is not None and experiment.smallest_effect is not None:
        effect = experiment.smallest_effect / _find_scale(experiment)
        found = run_futility(deciding.contrasts, shares, effect=effect, cap=cap, past=futility)
        futility = found.end or futility
    ended = Comparison(
        deciding=deciding.end,
        plain=plain.end,
        guardrails=guardrails,
        conditioned=comparison.conditioned + conditioned,
        treated_outcomes=comparison.treated_outcomes + float(outcomes[treated == 1].sum()),
        explored=_explore(experiment, comparison, units),
        futility=futility,
    )
    return Step(ended, deciding.log_e_plus, deciding.log_e_minus)


def _explore(experiment: Experiment, comparison: Comparison, units: Sequence[ObservedUnit]) -> Tallies:
    if not experiment.secondary and not experiment.slices:
        return comparison.explored
    explored = [
        ExploredUnit(one.arm == Arm.TREATMENT, one.treatment_share, one.outcome, one.secondary, one.slices)
        for one in units
    ]
    return go_on_exploring(experiment, comparison.explored, explored)


def find_intervals(experiment: Experiment, comparison: Comparison) -> tuple[Interval | None, Interval | None]:
    """The display intervals of the deciding contrast and of the plain one, in the outcome's own units."""
    return _interval(comparison.deciding, _find_scale(experiment)), _interval(comparison.plain, 1.0)


def _find_scale(experiment: Experiment) -> float:
    """What a deciding contrast is multiplied with to be in the outcome's own units."""
    sharp = experiment.conditioned or experiment.rescaled
    return experiment.outcome_high - experiment.outcome_low if sharp else 1.0


def _interval(past: Past, scale: float) -> Interval | None:
    return display_interval(
        units=past.units, treated=past.treated, contrasts=past.contrasts, squares=past.squares, scale=scale
    )
