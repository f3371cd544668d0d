"""The off-policy gate in larger simulations than the tests': how often it passes truly worse and truly better policies.

    python -m benchmarks.off_policy [--quick] [--data FOLDER]

Two settings. "near": the new policy is the log's, moved towards or away from the truth, as a model trained from its
parent is. "far": it is unrelated to the log's, and both are nearly deterministic. Prints a row per setting, number of
options and exploration share, beside two rules that are not the gate: SNIPS above the log's mean, and the gate's bound
without its refusals. The guess of rewards is cross-fitted from the new policy's probabilities, as in service.

Then the Open Bandit logs of a real shop, where there are any: the random policy's log estimates the click rate of the
Thompson sampler, whose own log has the truth.

The bounds are on all logs with an exploration share of at least 0.05 together, of those that the gate did not refuse.
The last line is one JSON object. Exits 1 when a bound is missed.
"""

import argparse
import csv
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.evaluation.off_policy import (
    MIN_EXPLORATION,
    Log,
    OffPolicyGate,
    check_off_policy_gate,
    cross_fit_by_probability,
)

ROOT = Path(__file__).resolve().parents[1]
FEATURES = 5
DECISIONS = 5_000
POPULATION = 100_000  # draws that a policy's true value is the mean of
SHARES = (0.0, 0.05, 0.1, 0.2)
LEAN = {"near": (-0.2, -0.05, 0.05, 0.2), "far": (-1.0, -0.35, 0.35, 1.0)}
SHARPNESS = {"near": 1.0, "far": 3.0}  # scores are normal with a deviation of this times √FEATURES


@dataclass(frozen=True)
class World:
    """Normal features x; chance of reward 1 a logistic curve of x'truth; the log's policy has scores of its own."""

    truth: np.ndarray
    acting: np.ndarray
    other: np.ndarray
    epsilon: float
    setting: str

    @property
    def options(self) -> int:
        return self.truth.shape[1]

    def rewards(self, x: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-0.8 * (x @ self.truth)))

    def mu(self, x: np.ndarray) -> np.ndarray:
        policy = softmax(SHARPNESS[self.setting] * (x @ self.acting))
        return (1.0 - self.epsilon) * policy + self.epsilon / self.options

    def leaning(self, x: np.ndarray, lean: float) -> np.ndarray:
        """The new policy, without exploration; lean in [-1, 1] is its share of the truth's own direction."""
        base = self.acting if self.setting == "near" else (1.0 - abs(lean)) * self.other
        return softmax(SHARPNESS[self.setting] * (x @ (lean * self.truth + base)))


def softmax(scores: np.ndarray) -> np.ndarray:
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def make_world(seed: int, setting: str, options: int, epsilon: float) -> World:
    rng = np.random.default_rng(seed)
    return World(*(rng.normal(size=(FEATURES, options)) for _ in range(3)), epsilon, setting)


def draw_gate(world: World, policy: dict[float, float], rng: np.random.Generator) -> OffPolicyGate:
    """One log of the world, judged for a policy that is a mixture {lean: share} of leaning ones."""
    x = rng.normal(size=(DECISIONS, FEATURES))
    mu, chance = world.mu(x), world.rewards(x)
    pi = sum(share * world.leaning(x, lean) for lean, share in policy.items())
    rows = np.arange(DECISIONS)
    action = np.minimum((mu.cumsum(axis=1) < rng.random((DECISIONS, 1))).sum(axis=1), world.options - 1)
    reward = (rng.random(DECISIONS) < chance[rows, action]).astype(float)
    guesses = cross_fit_by_probability(pi, pi, action, reward)
    target = np.minimum(pi[rows, action], 1.0)
    return check_off_policy_gate(Log(reward, mu[rows, action], target, *guesses, epsilon=world.epsilon))


def find_differences(world: World, leans: tuple[float, ...]) -> list[float]:
    """True value of each leaning policy minus that of the log's."""
    x = np.random.default_rng(99).normal(size=(POPULATION, FEATURES))
    chance, mu = world.rewards(x), world.mu(x)
    return [float(((world.leaning(x, lean) - mu) * chance).sum(axis=1).mean()) for lean in leans]


def check_all(
    setting: str, options: int, epsilon: float, worlds: int, logs: int
) -> Iterator[tuple[float, OffPolicyGate]]:
    """(true difference, gate) of `logs` logs for each of `worlds` worlds and each lean."""
    for seed in range(worlds):
        world = make_world(seed, setting, options, epsilon)
        rng = np.random.default_rng([seed, options])
        for lean, difference in zip(LEAN[setting], find_differences(world, LEAN[setting]), strict=True):
            for _ in range(logs):
                yield difference, draw_gate(world, {lean: 1.0}, rng)


def check_equals(setting: str, options: int, epsilon: float, worlds: int, logs: int) -> Iterator[OffPolicyGate]:
    """Gates of policies that are worth what the log's is, a better and a worse one mixed; none where there are none."""
    for seed in range(worlds):
        world = make_world(seed, setting, options, epsilon)
        rng = np.random.default_rng([seed, options, 1])
        best = LEAN[setting][-1]
        better, worse = find_differences(world, (best, -best))
        if not worse < 0.0 < better:
            continue
        for _ in range(logs):
            yield draw_gate(world, {best: -worse / (better - worse), -best: better / (better - worse)}, rng)


@dataclass(frozen=True)
class Judged:
    """One log: how much better the new policy truly is, and what the gate says."""

    setting: str
    epsilon: float
    difference: float
    gate: OffPolicyGate

    @property
    def covered(self) -> bool:
        return self.gate.difference.low <= self.difference <= self.gate.difference.high


def rate(hits: list[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def measure(judged: list[Judged]) -> dict[str, float | int | None]:
    """Of one setting, number of options and share."""
    better, worse = ([one for one in judged if (one.difference > 0) is side] for side in (True, False))
    figures: dict[str, float | int | None] = {"worse": len(worse), "better": len(better)}
    for side, found in (("false", worse), ("true", better)):
        estimates = [one.gate.estimates for one in found]
        figures[f"snips_{side}"] = rate([bool(one.snips.mean > one.logged.mean) for one in estimates])
        figures[f"bound_{side}"] = rate([one.gate.lower > 0 for one in found])
        figures[f"gate_{side}"] = rate([one.gate.passed for one in found])
    figures["refused"] = rate([bool(one.gate.refusals) for one in judged])
    figures["covered"] = rate([one.covered for one in judged])
    return figures


def check_bounds(judged: list[Judged], *, quick: bool) -> dict[str, dict[str, float | bool | None]]:
    """Each bound with what was found, over all logs that explored enough and were not refused."""
    answered = [one for one in judged if one.epsilon >= MIN_EXPLORATION and not one.gate.refusals]
    near = [one for one in answered if one.setting == "near" and one.difference > 0]
    covered = rate([one.covered for one in answered])
    false = rate([one.gate.passed for one in answered if one.difference <= 0])
    true = rate([one.gate.passed for one in near])
    assert covered is not None and false is not None and true is not None
    slack = 0.02 if quick else 0.0  # a sixth of the logs places the rates within a point or two
    return {
        "covered, 0.93 to 0.97": {"found": covered, "met": 0.93 - slack <= covered <= 0.97 + slack},
        "worse policies passed, at most 0.01": {"found": false, "met": false <= 0.01 + slack},
        "near and better passed, at least 0.85": {"found": true, "met": true >= 0.85 - slack},
    }


def read_shop(data: Path, policy: str) -> tuple[np.ndarray, ...] | None:
    """Items, positions from 0 to 2, clicks and propensities, (n,) each, of one policy's log; None without it."""
    path = data / "open_bandit" / policy / "men" / "men.csv"
    if not path.is_file():
        return None
    with path.open(newline="") as rows:
        columns = [
            (row["item_id"], row["position"], row["click"], row["propensity_score"]) for row in csv.DictReader(rows)
        ]
    item, position, click, propensity = np.array(columns, dtype=float).T
    return item.astype(int), position.astype(int) - 1, click, propensity


def check_shop(data: Path) -> dict[str, object] | None:
    """The Thompson sampler's click rate by the random policy's log, beside its own; None without the data.

    The sampler drifts, so its policy is how often it showed each item at each position. The difference has to lie
    within the errors of both logs: 1.96 standard errors of the estimate and of the sampler's own mean, together.
    """
    logged, own = read_shop(data, "random"), read_shop(data, "bts")
    if logged is None or own is None:
        return None
    shown = np.zeros((3, 34))
    np.add.at(shown, (own[1], own[0]), 1)
    policy = shown / shown.sum(axis=1, keepdims=True)
    item, position, click, propensity = logged
    pi = policy[position]
    guesses = cross_fit_by_probability(pi, pi, item, click)
    gate = check_off_policy_gate(Log(click, propensity, pi[np.arange(item.size), item], *guesses, epsilon=1.0))
    truth, error = float(own[2].mean()), float(own[2].std() / math.sqrt(own[2].size))
    found: dict[str, object] = {"rows": item.size, "truth": truth, "truth_error": error}
    met = not gate.refusals
    for name in ("ips", "snips", "doubly_robust"):
        estimate = getattr(gate.estimates, name)
        reach = 1.96 * math.hypot((estimate.high - estimate.low) / 3.92, error)
        met &= abs(estimate.mean - truth) <= reach
        found[name] = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "reach": reach}
    return found | {"effective_sample_size": gate.estimates.effective_sample_size, "met": met}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sixth of the logs")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    options = parser.parse_args()
    worlds, logs = (10, 2) if options.quick else (20, 5)
    began = time.process_time()
    everything: list[Judged] = []
    report = []
    print(
        "                        |  passed though worse   |  passed when better    |         | interval | passed where"
    )
    print("setting  options  share | SNIPS>0   DR>0    gate | SNIPS>0   DR>0    gate | refused |  covers  | equal")
    for setting, count, epsilon in itertools.product(LEAN, (3, 8), SHARES):
        judged = [
            Judged(setting, epsilon, difference, gate)
            for difference, gate in check_all(setting, count, epsilon, worlds, logs)
        ]
        everything += judged
        figures = measure(judged)
        equal = [gate.passed for gate in check_equals(setting, count, epsilon, worlds, logs)]
        figures |= {"equal": rate(equal), "equals": len(equal)}
        rates = [figures[f"{rule}_{side}"] for side in ("false", "true") for rule in ("snips", "bound", "gate")]
        cells = ["   -   " if value is None else f"{value:7.3f}" for value in [*rates, figures["equal"]]]
        print(
            f"{setting:<7}  {count:>7}  {epsilon:<5} | {' '.join(cells[:3])}| {' '.join(cells[3:6])}"
            f"|  {figures['refused']:.3f}  |  {figures['covered']:.3f}   | {cells[6]}"
            f"  ({figures['worse']} worse, {figures['better']} better, {len(equal)} equal)",
            flush=True,
        )
        report.append({"setting": setting, "options": count, "epsilon": epsilon, **figures})
    bounds = check_bounds(everything, quick=options.quick)
    for says, bound in bounds.items():
        print(f"{'pass' if bound['met'] else 'FAIL'}  {says}: {bound['found']:.4f}")
    shop = check_shop(options.data)
    if shop is None:
        print(f"skip  Open Bandit: no files at {options.data / 'open_bandit'}")
    else:
        print(f"{'pass' if shop['met'] else 'FAIL'}  Open Bandit, random log about the Thompson sampler: {shop}")
    passed = all(bound["met"] for bound in bounds.values()) and (shop is None or bool(shop["met"]))
    head = {"benchmark": "off_policy", "quick": options.quick, "decisions": DECISIONS, "worlds": worlds, "logs": logs}
    seconds = round(time.process_time() - began, 1)
    print(
        json.dumps(
            {**head, "passed": passed, "cpu_seconds": seconds, "bounds": bounds, "open_bandit": shop, "figures": report}
        )
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
