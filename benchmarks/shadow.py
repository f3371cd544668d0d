"""How often a shadow's evidence suffices: for candidates that are worth what acts, and for better ones.

    python -m benchmarks.shadow [--quick]

Streams of rewarded decisions in the worlds of `benchmarks.off_policy`, setting "near". Each is judged as a shadow is
(`training.shadows.rule`): at 500 answers and at every doubling, by the newest 5,000. Beside it the gate's own bound of
95 % at the same looks, which knows nothing of the looks before.

The bound is on candidates that are worth what acts. The last line is one JSON object. Exits 1 when it is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.off_policy import FEATURES, LEAN, World, find_differences, make_world
from training.evaluation.off_policy import Log, check_off_policy_gate, cross_fit_by_probability
from training.shadows.rule import ERROR, is_look_due, judge

LEAST = 500
ANSWERS = 8_000
NEWEST = 5_000  # training.evaluation.log_gate.ROWS
FAR, NEAR = LEAN["near"][-1], LEAN["near"][2]


@dataclass(frozen=True)
class Stream:
    """At which look it sufficed by the rule, and by the gate's own bound; 0 where it never did."""

    by_rule: int
    by_gate: int


def play(world: World, policy: Mapping[float, float], rng: np.random.Generator) -> Stream:
    """One stream for a candidate that is a mixture {lean: share}."""
    x = rng.normal(size=(ANSWERS, FEATURES))
    mu, chance = world.mu(x), world.rewards(x)
    pi = sum(share * world.leaning(x, lean) for lean, share in policy.items())
    assert not isinstance(pi, int)
    rows = np.arange(ANSWERS)
    action = np.minimum((mu.cumsum(axis=1) < rng.random((ANSWERS, 1))).sum(axis=1), world.options - 1)
    reward = (rng.random(ANSWERS) < chance[rows, action]).astype(float)
    propensity, target = mu[rows, action], np.minimum(pi[rows, action], 1.0)
    looks = by_rule = by_gate = 0
    for answered in range(LEAST, ANSWERS + 1, LEAST):
        if not is_look_due(looks=looks, answered=answered, rewarded=min(answered, NEWEST), least=LEAST):
            continue
        looks += 1
        newest = slice(max(0, answered - NEWEST), answered)
        guesses = cross_fit_by_probability(pi[newest], pi[newest], action[newest], reward[newest])
        log = Log(reward[newest], propensity[newest], target[newest], *guesses, epsilon=world.epsilon)
        gate = check_off_policy_gate(log)
        by_gate = by_gate or looks * gate.passed
        by_rule = by_rule or looks * judge(gate, look=looks, answered=answered, failed=0).passed
    return Stream(by_rule, by_gate)


def play_all(options: int, epsilon: float, worlds: int, streams: int) -> dict[str, list[Stream]]:
    """Of candidates that are `equal` to what acts, a better and a worse one mixed, and of slightly `better` ones."""
    found: dict[str, list[Stream]] = {"equal": [], "better": []}
    for seed in range(worlds):
        world = make_world(seed, "near", options, epsilon)
        rng = np.random.default_rng([seed, options, 2])
        better, worse = find_differences(world, (FAR, -FAR))
        if not worse < 0.0 < better:
            continue
        equal = {FAR: -worse / (better - worse), -FAR: better / (better - worse)}
        for _ in range(streams):
            found["equal"].append(play(world, equal, rng))
            found["better"].append(play(world, {NEAR: 1.0}, rng))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the streams")
    options = parser.parse_args()
    began = time.process_time()
    worlds, streams = (6, 3) if options.quick else (20, 10)
    equal: list[Stream] = []
    report = []
    print("options  share | equal: rule   gate | better: rule   gate   answers needed (median)")
    for count, epsilon in ((3, 0.1), (8, 0.1), (8, 0.2)):
        found = play_all(count, epsilon, worlds, streams)
        equal += found["equal"]
        rates = {
            f"{side}_{name}": float(np.mean([getattr(one, name) > 0 for one in some]))
            for side, some in found.items()
            for name in ("by_rule", "by_gate")
        }
        needed = [LEAST * 2 ** (one.by_rule - 1) if one.by_rule else math.inf for one in found["better"]]
        median = float(np.median(needed))
        print(
            f"{count:>7}  {epsilon:<5} |      {rates['equal_by_rule']:.3f}  {rates['equal_by_gate']:.3f}"
            f" |       {rates['better_by_rule']:.3f}  {rates['better_by_gate']:.3f}   {median:,.0f}"
            f"  ({len(found['equal'])} streams each)",
            flush=True,
        )
        report.append({"options": count, "epsilon": epsilon, "streams": len(needed), "median": median, **rates})
    false = float(np.mean([one.by_rule > 0 for one in equal]))
    most = ERROR + 1.64 * math.sqrt(ERROR * (1 - ERROR) / len(equal))  # what chance adds in one of twenty such runs
    passed = false <= most
    print(f"{'pass' if passed else 'FAIL'}  equal candidates that ever suffice, at most {most:.3f}: {false:.4f}")
    head = {"benchmark": "shadow", "quick": options.quick, "passed": passed, "false": false, "most": most}
    print(json.dumps({**head, "cpu_seconds": round(time.process_time() - began, 1), "figures": report}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
