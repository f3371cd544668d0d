"""The demo's experiment simulated on the predictions of its two models: how often, and after how many units, it ends.

`benchmarks.statistics` calls it. `data/demo_predictions.npz` holds what the base and the trained model of the demo's
first seed (RECKONER_DEMO_SEED=0) gave the eight topics on 1,920 held-out passages, and which topic was right: acting
as the demo does, the base files .48 of them rightly and the trained model .61.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models_registry.statistics.e_process import compute_posteriors, rescale
from models_registry.statistics.promotion import Bounds
from training.loops.rehearsal.outlook import promoted_after

Floats = NDArray[np.float64]

TEMPERATURE, EPSILON = 0.5, 0.1
WRONG = 0.05
UNANSWERED = 0.25
CONFIRMED, CORRECTED = 0.75, 0.375
LOW, HIGH = 0.3, 0.75
WINDOW_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class World:
    """(n, 8) each but `right`, (n,): P(topic | passage) as either arm acts, and the topic that is right."""

    base: Floats
    trained: Floats
    equal: Floats
    right: NDArray[np.int64]


def load_world() -> World:
    """`equal` is another policy than the base, worth the same: the trained one with more of its choices at random."""
    found = np.load(Path(__file__).parent / "data" / "demo_predictions.npz")
    right = found["answer"].astype(int)
    base, trained = (_acting(found[name].astype(float)) for name in ("base", "trained"))
    chance = 1 / base.shape[1]
    share = (_value(base, right) - chance) / (_value(trained, right) - chance)
    return World(base, trained, share * trained + (1 - share) * chance, right)


def _acting(stored: Floats) -> Floats:
    policy = (stored / stored.sum(1, keepdims=True)) ** (1 / TEMPERATURE)
    return (1 - EPSILON) * policy / policy.sum(1, keepdims=True) + EPSILON / policy.shape[1]


def _value(policy: Floats, right: NDArray[np.int64]) -> float:
    return float(policy[np.arange(len(right)), right].mean())


DEMO = Bounds(min_units_per_arm=150, min_seconds=0.0)
"""The demo's; its age of some seconds has no place among units."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated: how many runs of how many units, under which rule.

    lag_hours: mean of the exponential time until feedback, control and treatment; later than a day counts for nothing.
    margins: of the guardrails on errors, latency and missing feedback; none of them is ever worse by itself.
    """

    runs: int
    units: int
    treatment: str = "trained"
    share: float = 0.5
    decisions: int = 1
    unanswered: float = UNANSWERED
    lag_hours: tuple[float, float] = (0.0, 0.0)
    sharp: bool = True
    margins: tuple[float, float, float] | None = (0.05, 0.05, 0.15)
    bounds: Bounds = DEMO
    seed: int = 0


def promote_after(world: World, case: Case) -> Floats:
    """(runs,): the unit at which each experiment is promoted; inf where it is rolled back before, or never is.

    The rule looks after every unit.
    """
    rng = np.random.default_rng(case.seed)
    return np.array([_run(world, case, rng) for _ in range(case.runs)])


def _run(world: World, case: Case, rng: np.random.Generator) -> float:
    shape = (case.units, case.decisions)
    policies = (world.base, getattr(world, case.treatment))
    arms = (rng.random(case.units) < case.share).astype(int)
    passages = rng.integers(len(world.right), size=shape)
    acting = np.where(arms[:, None, None] == 1, policies[1][passages], policies[0][passages])
    actions = (acting.cumsum(-1) > rng.random((*shape, 1))).argmax(-1)
    log_l = [np.log(policy[passages, actions]).sum(1) for policy in policies]
    confirmed = (actions == world.right[passages]) ^ (rng.random(shape) < WRONG)
    lag = rng.exponential(1.0, shape) * np.array(case.lag_hours)[arms][:, None]
    answered = (rng.random(shape) >= case.unanswered) & (lag <= WINDOW_HOURS)
    rewarded = answered.any(1)
    rewards = np.where(answered, np.where(confirmed, CONFIRMED, CORRECTED), 0.0)
    outcomes = (rewards.sum(1) / np.maximum(answered.sum(1), 1))[rewarded]
    posteriors = compute_posteriors(arms[rewarded], case.share, log_l[0][rewarded], log_l[1][rewarded])
    return promoted_after(
        arms,
        case.share,
        rewarded,
        rescale(outcomes, LOW, HIGH) if case.sharp else outcomes,
        posteriors=posteriors if case.sharp else None,
        margins=case.margins,
        bounds=case.bounds,
    )


BARE = {"margins": None, "bounds": Bounds(min_units_per_arm=1, min_seconds=0.0), "unanswered": 0.0}
"""Nothing but E⁺: what the contrasts are compared by."""
DEFAULT = {"margins": (0.01, 0.02, 0.05), "bounds": Bounds(min_seconds=0.0)}
"""The guardrails and counts of an experiment that sets nothing."""


def measure_demo(quick: bool, units: int) -> dict[str, float | None]:
    """Figures by name. `units`: how many the demo's experiment has."""
    world = load_world()
    honest, power = (200, 200) if quick else (2000, 1000)
    cases = {
        "demo_50_50": Case(power, units),
        "demo_plain_50_50": Case(power, units, sharp=False),
        "demo_four_decisions": Case(power, units, decisions=4),
        "demo_uneven_lag": Case(power, units, lag_hours=(2.0, 4.0)),
        "demo_default_guardrails": Case(power // 2, 10_000, **DEFAULT),
        "bare_sharp_50_50": Case(power // 2, 3000, **BARE),
        "bare_plain_50_50": Case(power // 2, 3000, sharp=False, **BARE),
        "bare_sharp_10_90": Case(power // 2, 8000, share=0.1, **BARE),
        "bare_plain_10_90": Case(power // 2, 8000, share=0.1, sharp=False, **BARE),
        "equal_50_50": Case(honest, units, "equal"),
        "equal_10_90": Case(honest, 3 * units, "equal", share=0.1),
        "equal_four_decisions": Case(honest, units, "equal", decisions=4),
        "equal_uneven_lag": Case(honest, units, "equal", lag_hours=(2.0, 4.0)),
        "equal_default_guardrails": Case(honest, 5000, "equal", **DEFAULT),
        "equal_bare_50_50": Case(honest, units, "equal", **BARE),
        "equal_bare_10_90": Case(honest, 3 * units, "equal", share=0.1, **BARE),
    }
    figures: dict[str, float | None] = {}
    for name, case in cases.items():
        ends = promote_after(world, case)
        median = float(np.median(ends))
        figures[f"{name}_promoted"] = float(np.isfinite(ends).mean())
        if not name.startswith("equal"):
            figures[f"{name}_median_units"] = median if math.isfinite(median) else None
    for split in ("50_50", "10_90"):
        sharp, plain = figures[f"bare_sharp_{split}_median_units"], figures[f"bare_plain_{split}_median_units"]
        figures[f"sharp_of_plain_{split}"] = sharp / plain if sharp and plain else None
    return figures
