"""A ramp that evidence opens, simulated: how often an arm 10 points worse is rolled back on it, and who met that arm.

`benchmarks.statistics` calls it. Looks come every 25 matured units; phases, tests, the default guardrails and bounds
are the product's. 15% of the units have no reward, and the treatment's feedback takes twice as long as the control's,
of a window of a day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models_registry.statistics.e_process import NOTHING, Past, run_e_process
from models_registry.statistics.guardrails import run_guardrail
from models_registry.statistics.promotion import Bounds, Evidence, Guardrail, decide
from models_registry.statistics.ramp import RampBounds, find_obstacles

RAMP = (0.05, 0.25, 0.5)
LOOK = 25
MISSING = 0.15
LAG_HOURS = (2.0, 4.0)
WINDOW_HOURS = 24.0
BOUNDS = Bounds(min_seconds=0.0)
MARGINS = {"error_rate": 0.01, "latency": 0.02, "missing_feedback": 0.05}
"""Of an experiment that sets nothing (`models_registry.experiments.guardrails.DEFAULT_GUARDRAILS`)."""


@dataclass(frozen=True, slots=True)
class End:
    """action: the last verdict. units: matured until then. treated: how many of them met the treatment. phases: how
    many phases had begun."""

    action: str
    units: int
    treated: int
    phases: int


def simulate_ramp(
    rng: np.random.Generator, units: int, *, base: float, effect: float, ramp: tuple[float, ...] = RAMP
) -> End:
    """One experiment with an outcome of 0 or 1 a unit, on the plain contrast."""
    deciding, guards = NOTHING, dict.fromkeys(MARGINS, NOTHING)
    phase, in_phase, treated, known = 0, 0, 0, [0, 0]
    for begin in range(0, units, LOOK):
        share = ramp[phase]
        arms = (rng.random(LOOK) < share).astype(int)
        outcomes = (rng.random(LOOK) < base + effect * arms).astype(float)
        lags = rng.exponential(1.0, LOOK) * np.array(LAG_HOURS)[arms]
        rewarded = (rng.random(LOOK) >= MISSING) & (lags <= WINDOW_HOURS)
        deciding = _end(run_e_process(arms[rewarded], share, outcomes[rewarded], past=deciding).end)
        for name, margin in MARGINS.items():
            measures = (~rewarded).astype(float) if name == "missing_feedback" else np.zeros(LOOK)
            guards[name] = _end(run_guardrail(arms, share, measures, margin=margin, past=guards[name]).end)
        treated += int(arms.sum())
        known[1] += int(arms[rewarded].sum())
        known[0] += int((1 - arms)[rewarded].sum())
        in_phase += LOOK
        guardrails = tuple(Guardrail(name, end.log_e_minus, end.log_e_plus, end.units) for name, end in guards.items())
        evidence = Evidence(deciding.log_e_plus, deciding.log_e_minus, known[0], known[1], 1.0, guardrails)
        verdict = decide(evidence, BOUNDS)
        if verdict.action != "continue":
            return End(verdict.action, begin + LOOK, treated, phase + 1)
        obstacles = find_obstacles(
            units=in_phase,
            log_e_minus=deciding.log_e_minus,
            guardrails=guardrails,
            sample_ratio_mismatch=False,
            bounds=RampBounds(),
        )
        if phase + 1 < len(ramp) and not obstacles:
            phase, in_phase = phase + 1, 0
    return End("continue", units, treated, phase + 1)


def _end(past: Past | None) -> Past:
    assert past is not None  # of one sequence
    return past


def measure_ramps(runs: int) -> dict[str, float | None]:
    """Figures by name: an arm 10 points worse on the ramp and at an even split, and one as good."""
    rng = np.random.default_rng(6)
    figures: dict[str, float | None] = {}
    worse = [simulate_ramp(rng, 2500, base=0.4, effect=-0.1) for _ in range(runs)]
    even = [simulate_ramp(rng, 2500, base=0.4, effect=-0.1, ramp=(0.5,)) for _ in range(runs)]
    for name, ends in (("ramp", worse), ("even", even)):
        back = [end for end in ends if end.action == "roll_back"]
        figures[f"{name}_rolled_back"] = len(back) / runs
        figures[f"{name}_rolled_back_median_units"] = float(np.median([end.units for end in back])) if back else None
        figures[f"{name}_met_worse_arm"] = float(np.mean([end.treated for end in ends]))
    equal = [simulate_ramp(rng, 2500, base=0.4, effect=0.0) for _ in range(runs)]
    figures["ramp_equal_promoted"] = sum(end.action == "promote" for end in equal) / runs
    figures["ramp_equal_rolled_back"] = sum(end.action == "roll_back" for end in equal) / runs
    figures["ramp_equal_reached_the_last_phase"] = sum(end.phases == len(RAMP) for end in equal) / runs
    return {name: figure if figure is None or math.isfinite(figure) else None for name, figure in figures.items()}
