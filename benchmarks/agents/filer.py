"""FILER learns its 48 structured options from an outside policy's decisions, beside the same number of its own.

The world is that of benchmarks/methods.py. The outside policy has each of status, swimlane and priority right in 75 %,
and tells no probabilities; our own decisions have theirs. `dpo` learns from the corrections of each log. `ppo` learns
from the stored decisions of our own, and acts afresh on the others', paid by a reward model of them.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

from benchmarks.engine_runs import Rows, each_seed, read_queries
from benchmarks.methods import FIELDS, LOGS, RECIPES, SILENT, WHOLE, WORLDS, WRONG, Bench, correct
from decisions.agents.canonical import canonical
from tools.report import Report

FIELD_RIGHT = 0.75
METHODS = ("posterior", "ppo", "kto", "dpo")
AFRESH = {"optimiser": {"learning_rate": 1e-3, "epochs": 6}}
"""Of `ppo` where the policy tells no probabilities."""
BOTH = ("our own", "an outside policy's")


def outside_log(rows: Rows, rng: random.Random) -> Rows:
    """What the policy decided on each, and what a person said of it."""
    decided = []
    for row in rows:
        right = json.loads(row["answer"])
        filed = {
            name: right[name] if rng.random() < FIELD_RIGHT else rng.choice([one for one in of if one != right[name]])
            for name, of in FIELDS.items()
        }
        action = canonical(filed)
        said = float((action == row["answer"]) != (rng.random() < WRONG))
        reward = None if rng.random() < SILENT else said
        told = {name: row[name] for name in ("id", "prompt", "options")}
        decided.append(told | {"action": action, "propensity": None, "reward": reward})
    return decided


def measure(data: Path, report: Report, *, quick: bool) -> None:
    queries = read_queries(data)
    sizes = WHOLE._replace(seeds=1, decisions=600, held_out=400) if quick else WHOLE
    told: dict[tuple[str, str], list[str]] = {}
    above: dict[tuple[str, str], list[bool]] = {}
    seconds = 0.0
    for seed, runs in each_seed(sizes.seeds, max_prompt_tokens=40):
        bench = Bench(runs, WORLDS["filer"], queries, seed, sizes)
        rng = random.Random(f"{seed}/outside")
        bench.rows["outside"] = outside_log(bench.rows["prompts"], rng)
        bench.rows["outside pairs"] = correct(bench.rows["prompts"], bench.rows["outside"], rng)
        for method, whose in itertools.product(METHODS, BOTH):
            source = "pairs" if method == "dpo" else "log"
            if whose != BOTH[0]:
                source = {"log": "outside", "pairs": "outside pairs"}[source]
            settings = RECIPES[method][1] if method == "dpo" else LOGS
            if method == "ppo" and whose == BOTH[1]:
                settings = AFRESH
            after, gain, cpu = bench.learn(f"{method} {whose[:7]}", method, source, settings)
            seconds += cpu
            before = sum(bench.right) / len(bench.right)
            figure = f"{before:.3f} → {after:.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
            told.setdefault((method, whose), []).append(figure)
            above.setdefault((method, whose), []).append(gain.low > 0)
    for (method, whose), figures in told.items():
        required = method not in ("kto", "ppo") and whose == BOTH[1]
        report.add(
            f"FILER, {method} from {whose} decisions: accuracy",
            bound="> 0 in each" if required else "as measured",
            figure="; ".join(figures),
            passed=quick or not required or all(above[method, whose]),
        )
    report.add("FILER, all runs", bound="as measured", figure=f"{seconds:.0f} CPU s", passed=True)
