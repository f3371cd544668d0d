"""The statistics that decide, in larger simulations than the tests': error rates and power of the promotion rule, on
made-up outcomes, on the demo's predictions, and through the ledger.

    python -m benchmarks.statistics [--quick]

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.stats import beta

from benchmarks.demo_experiment import measure_demo
from benchmarks.matured_experiments import measure_matured
from benchmarks.ramps import measure_ramps
from models_registry.statistics.e_process import EProcess, run_e_process
from models_registry.statistics.promotion import Bounds
from models_registry.statistics.sample_ratio import compute_log_bayes_factor
from tools.report import Report

BOUNDS = Bounds()
BATCH = 50
DEMO_UNITS = 1_800
"""What the demo's passages leave for its experiment."""


def simulate(
    seed: int, runs: int, units: int, *, share: float, base: float, effect: float
) -> Iterator[tuple[EProcess, np.ndarray]]:
    """Batches of (e-process, arms), each of shape (BATCH, units)."""
    rng = np.random.default_rng(seed)
    for _ in range(runs // BATCH):
        arms = (rng.random((BATCH, units)) < share).astype(int)
        outcomes = (rng.random((BATCH, units)) < base + effect * arms).astype(float)
        yield run_e_process(arms, share, outcomes), arms


def find_first(reached: np.ndarray) -> np.ndarray:
    """1-based position of the first True in each row, inf where there is none."""
    return np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1.0, np.inf)


def count_events(batches: Iterator[tuple[EProcess, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Units after which each run is promoted and rolled back (inf = never); the rule looks after every unit."""
    promoted, rolled_back = [], []
    for result, arms in batches:
        seen = np.arange(1, arms.shape[1] + 1)
        enough = np.minimum(result.treated, seen - result.treated) >= BOUNDS.min_units_per_arm
        harm = find_first(result.log_e_minus >= math.log(BOUNDS.rollback_e))
        win = find_first((result.log_e_plus >= math.log(BOUNDS.promote_e)) & enough)
        promoted.append(np.where(win < harm, win, np.inf))
        rolled_back.append(np.where(harm <= win, harm, np.inf))
    return np.concatenate(promoted), np.concatenate(rolled_back)


def find_upper_bound(events: int, runs: int) -> float:
    """One-sided 95% Clopper-Pearson upper bound of a rate."""
    return 1.0 if events == runs else float(beta.ppf(0.95, events + 1, runs - events))


def summarise_median(first: np.ndarray) -> float | None:
    median = float(np.median(first))
    return median if math.isfinite(median) else None


def measure_errors(runs: int, units: int) -> dict[str, float]:
    figures = {}
    for name, share in (("50_50", 0.5), ("10_90", 0.1)):
        promoted, rolled_back = count_events(simulate(1, runs, units, share=share, base=0.3, effect=0.0))
        false = int(np.isfinite(promoted).sum())
        figures[f"false_promotion_{name}"] = false / runs
        figures[f"false_promotion_{name}_upper"] = find_upper_bound(false, runs)
        figures[f"false_rollback_{name}"] = float(np.isfinite(rolled_back).mean())
    wins = [
        (result.log_e_two_sided.max(axis=1) >= math.log(20))
        for result, _ in simulate(2, runs, units, share=0.5, base=0.3, effect=0.0)
    ]
    figures["false_win_two_sided"] = float(np.concatenate(wins).mean())
    return figures


def measure_power(runs: int, units: int) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for effect in (0.05, 0.10, 0.15):
        promoted, _ = count_events(simulate(3, runs, units, share=0.5, base=0.3, effect=effect))
        figures[f"promoted_plus_{round(100 * effect)}"] = float(np.isfinite(promoted).mean())
        figures[f"promoted_plus_{round(100 * effect)}_median_units"] = summarise_median(promoted)
    return figures


def measure_rollback(runs: int) -> dict[str, float | None]:
    """An arm 10 points worse; the fixed 5% is reported, not bounded. Ramps are in `benchmarks.ramps`."""
    plans = {"50_50": 0.5, "held_5": 0.05}
    figures: dict[str, float | None] = {}
    for name, share in plans.items():
        _, rolled_back = count_events(simulate(4, runs, 2500, share=share, base=0.4, effect=-0.1))
        figures[f"rolled_back_{name}"] = float(np.isfinite(rolled_back).mean())
        figures[f"rolled_back_{name}_median_units"] = summarise_median(rolled_back)
    return figures


def measure_sample_ratio(runs: int, units: int = 20_000, look: int = 200) -> dict[str, float]:
    rng = np.random.default_rng(5)
    figures = {}
    for name, share in (("sound", 0.5), ("52_48", 0.52)):
        treated = rng.binomial(look, share, (runs, units // look)).cumsum(axis=1)
        seen = look * np.arange(1, units // look + 1)
        halted = [
            any(
                compute_log_bayes_factor(int(n - k), int(k), 0.5) >= math.log(1000)
                for k, n in zip(run, seen, strict=True)
            )
            for run in treated
        ]
        figures[f"sample_ratio_halted_{name}"] = float(np.mean(halted))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, half the units")
    quick = parser.parse_args().quick
    runs, units = (200, 5_000) if quick else (2_000, 10_000)
    began = time.monotonic()
    figures: dict[str, float | None] = {
        **measure_errors(runs, units),
        **measure_power(runs // 4, units),
        **measure_rollback(runs // 2),
        **measure_ramps(runs // 4),
        **measure_sample_ratio(100 if quick else 500),
        **measure_demo(quick, DEMO_UNITS),
        **measure_matured(3 if quick else 20, DEMO_UNITS),
    }
    # 200 runs place a rate of 2% only within about 2 points, so the quick form checks looser bounds.
    slack = 0.025 if quick else 0.0
    points: list[tuple[str, str, Literal["<=", ">="], float]] = [
        ("false promotions, 50/50", "false_promotion_50_50", "<=", 0.025 + slack),
        ("  upper 95% bound", "false_promotion_50_50_upper", "<=", 0.035 + 2 * slack),
        ("false promotions, 10/90", "false_promotion_10_90", "<=", 0.025 + slack),
        ("false wins, two-sided at 5%", "false_win_two_sided", "<=", 0.05 + slack),
        ("promoted when 10 points better", "promoted_plus_10", ">=", 0.9),
        ("rolled back within 2,500 units when 10 points worse", "rolled_back_50_50", ">=", 0.9),
        ("  on the ramp, default guardrails, 15% missing", "ramp_rolled_back", ">=", 0.70),
        ("promoted on the ramp, no difference", "ramp_equal_promoted", "<=", 0.01 + slack),
        ("sample ratio: sound split halted", "sample_ratio_halted_sound", "<=", 0.005 + slack),
        ("sample ratio: 52/48 found by 20,000", "sample_ratio_halted_52_48", ">=", 0.9),
        ("the demo's experiment: promoted", "demo_50_50_promoted", ">=", 0.995 - slack),
        ("  four decisions a unit", "demo_four_decisions_promoted", ">=", 0.995 - slack),
        ("  feedback twice as late in one arm", "demo_uneven_lag_promoted", ">=", 0.995 - slack),
        ("  default guardrails, within 10,000 units", "demo_default_guardrails_promoted", ">=", 0.99 - slack),
        ("  through Router and maturing job", "ledger_promoted", ">=", 0.995),
        ("median units of plain's, 50/50", "sharp_of_plain_50_50", "<=", 1 / 3),
        ("median units of plain's, 10/90", "sharp_of_plain_10_90", "<=", 1 / 3),
        ("equal value, promoted: the demo's experiment", "equal_50_50_promoted", "<=", 0.01 + slack),
        ("  split 10/90", "equal_10_90_promoted", "<=", 0.01 + slack),
        ("  four decisions a unit", "equal_four_decisions_promoted", "<=", 0.01 + slack),
        ("  feedback twice as late in one arm", "equal_uneven_lag_promoted", "<=", 0.01 + slack),
        ("  default guardrails", "equal_default_guardrails_promoted", "<=", 0.01 + slack),
        ("  through Router and maturing job", "ledger_equal_promoted", "<=", 0.05 + slack),
    ]
    report = Report("statistics")
    for label, key, sign, bound in points:
        report.bound(label, figures[key], sign, bound)
    seconds = round(time.monotonic() - began, 1)
    return report.finish(quick=quick, runs=runs, units=units, seconds=seconds, figures=figures)


if __name__ == "__main__":
    sys.exit(main())
