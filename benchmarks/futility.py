"""What giving up saves and costs: experiments with and without the futility test, in three worlds of rewards.

    python -m benchmarks.futility [--quick]

Verdicts of 0 or 1; graded rewards of which some never come; and conditioned contrasts of two policies whose
probabilities are known. The rule looks after every unit, without age and guardrails. Prints a table and one JSON object
as the last line; exits 1 when a point misses its bound.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models_registry.statistics.e_process import CAP, SHARP_CAP, EProcess, Floats, compute_posteriors, run_e_process
from models_registry.statistics.futility import run_futility
from models_registry.statistics.promotion import Bounds
from tools.report import Report

EFFECT = 0.05
"""The smallest effect that is worth finding: the default of an experiment."""
EFFECTS = (0.0, 0.5 * EFFECT, EFFECT, 2 * EFFECT)
BOUNDS = Bounds(futility_e=20.0)
BATCH = 50


@dataclass(frozen=True, slots=True)
class World:
    """draw(rng, (runs, units), effect) runs the decision test on made-up units. cap: of its bets. per_unit: how many
    units meet an arm for each that has an outcome."""

    draw: Callable[[np.random.Generator, tuple[int, int], float], EProcess]
    cap: float = CAP
    per_unit: float = 1.0


def draw_verdicts(rng: np.random.Generator, shape: tuple[int, int], effect: float) -> EProcess:
    arms = (rng.random(shape) < 0.5).astype(int)
    return run_e_process(arms, 0.5, (rng.random(shape) < 0.4 + effect * arms).astype(float))


def draw_graded(rng: np.random.Generator, shape: tuple[int, int], effect: float) -> EProcess:
    """Shares of a task that was done, a tenth of them nothing at all."""
    arms = (rng.random(shape) < 0.5).astype(int)
    mean = (0.45 + effect * arms) / 0.9
    outcomes = rng.beta(4 * mean, 4 * (1 - mean)) * (rng.random(shape) < 0.9)
    return run_e_process(arms, 0.5, outcomes)


def draw_conditioned(rng: np.random.Generator, shape: tuple[int, int], effect: float) -> EProcess:
    """Two policies that differ in what they are sure of, and that are right in .5 and .5 + effect of the units. A unit
    is one choice of two, of which one is right."""
    arms = (rng.random(shape) < 0.5).astype(int)
    surest = 0.5 - EFFECT * 3
    control = 0.5 + surest * rng.uniform(-1, 1, shape)
    treatment = np.clip(control + 0.3 * rng.uniform(-1, 1, shape), 0.15, 0.85)
    treatment = np.clip(treatment - treatment.mean() + 0.5 + effect, 0.01, 0.99)
    right = rng.random(shape) < np.where(arms == 1, treatment, control)
    log_control, log_treatment = (np.log(np.where(right, p, 1 - p)) for p in (control, treatment))
    posteriors = compute_posteriors(arms, 0.5, log_control, log_treatment)
    return run_e_process(arms, 0.5, right.astype(float), posteriors=posteriors, cap=SHARP_CAP)


WORLDS = {
    "verdicts": World(draw_verdicts),
    "graded": World(draw_graded, per_unit=1 / 0.85),
    "conditioned": World(draw_conditioned, cap=SHARP_CAP),
}


def find_first(reached: np.ndarray) -> Floats:
    """1-based position of the first True in each row, inf where there is none."""
    return np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1.0, np.inf)


def measure(world: World, seed: int, runs: int, units: int, effect: float) -> dict[str, float]:
    """Shares of the runs that end each way within `units` units with an outcome, and the units that meet an arm."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(runs // BATCH):
        found = world.draw(rng, (BATCH, units), effect)
        seen = np.arange(1, units + 1)
        enough = np.minimum(found.treated, seen - found.treated) >= BOUNDS.min_units_per_arm
        strong = found.log_e_plus >= math.log(BOUNDS.promote_e)
        quiet = np.maximum(found.log_e_plus, found.log_e_minus) <= 0.0
        futile = run_futility(found.contrasts, 0.5, effect=EFFECT, cap=world.cap).log_e_futile
        rows.append(
            [
                find_first(strong & enough),
                find_first(found.log_e_minus >= math.log(BOUNDS.rollback_e)),
                find_first((futile >= math.log(BOUNDS.futility_e or math.inf)) & quiet & enough),
            ]
        )
    promoted, harmed, futile = (np.concatenate(part) for part in zip(*rows, strict=True))
    without, ends = np.minimum(promoted, harmed), np.minimum(np.minimum(promoted, harmed), futile)
    return {
        "promoted_without": float((np.isfinite(promoted) & (promoted < harmed)).mean()),
        "promoted": float((np.isfinite(promoted) & (promoted == ends) & (promoted < harmed)).mean()),
        "given_up": float((np.isfinite(futile) & (futile < without)).mean()),
        "units_without": world.per_unit * float(np.minimum(without, units).mean()),
        "units": world.per_unit * float(np.minimum(ends, units).mean()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the runs")
    quick = parser.parse_args().quick
    runs, units = (200, 20_000) if quick else (1_000, 20_000)
    began = time.monotonic()
    figures: dict[str, dict[str, float]] = {}
    for name, world in WORLDS.items():
        for effect in EFFECTS:
            key = f"{name}_{round(1000 * effect):03d}"
            figures[key] = measure(world, 1, runs, units, effect)
            one = figures[key]
            print(
                f"{name:12} +{100 * effect:4.1f} points: promoted {one['promoted_without']:.3f} without, "
                f"{one['promoted']:.3f} with; given up {one['given_up']:.3f}; "
                f"units {one['units_without']:,.0f} without, {one['units']:,.0f} with",
                flush=True,
            )
    report = Report("futility")
    slack = 0.04 if quick else 0.015  # about two standard errors of a share of 5%
    for name in WORLDS:
        none, least, twice = (figures[f"{name}_{round(1000 * effect):03d}"] for effect in (0.0, EFFECT, 2 * EFFECT))
        report.bound(f"{name}: given up when better by the effect", least["given_up"], "<=", 0.05 + slack)
        report.bound(f"{name}: given up when better by twice the effect", twice["given_up"], "<=", 0.05)
        report.bound(
            f"{name}: power lost at the effect", least["promoted_without"] - least["promoted"], "<=", 0.05 + slack
        )
        report.bound(f"{name}: false promotions", none["promoted"], "<=", none["promoted_without"])
        report.bound(f"{name}: units of those without, no difference", none["units"] / none["units_without"], "<=", 0.7)
    seconds = round(time.monotonic() - began, 1)
    return report.finish(quick=quick, runs=runs, units=units, seconds=seconds, figures=figures)


if __name__ == "__main__":
    sys.exit(main())
