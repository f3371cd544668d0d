"""A reward model of people's corrections, and a policy that learns from nothing else than what it says.

    python -m benchmarks.reward_model [--data DIR] [--worlds domains,filer] [--quick]

The worlds, bases and seeds of benchmarks/methods.py: a tiny base learns from 500 labelled queries and decides on 2,000
others; a person says of most whether they were right, and corrects what was wrong. `reward_model` learns from the
*corrections*, each a pair of the right action and the one taken; and from all *verdicts*: rows with the right action,
confirmed or named, each against a third of the other options. It orders a pair for each held-out query,
the right action and the likeliest wrong one by the base; the base orders as many rightly as it decides rightly. Then
`grpo` decides afresh on the prompts of the 2,000, rewarded by the reward model alone, without an answer. Held-out
queries are clustered by intent. Prints two rows per world, kind of pairs and seed, and one JSON object as the last
line; exits 1 unless, of verdicts, the paired differences from the base (pairs ordered rightly; accuracy of the policy)
lie above 0 with their whole intervals, in every seed.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.engine_runs import Rows, each_seed, make_parser, parse, read_queries
from benchmarks.methods import QUICK, TOLD, WHOLE, WORLDS, Bench
from models_registry.statistics.intervals import Interval, paired_difference
from tools.report import Report
from training.engine.spec.methods import METHODS

FEW, MORE = "corrections", "verdicts"
EPOCHS = {FEW: 6, MORE: 3}


def answers_of_verdicts(bench: Bench) -> Rows:
    """A labelled row of each verdict: the action that was confirmed, or the right one that a correction names."""
    options = bench.held_out[0]["options"]
    told = [(row["id"], row["prompt"], row["chosen"]) for row in bench.rows["pairs"]]
    told += [(row["id"], row["prompt"], row["action"]) for row in bench.rows["log"] if row["reward"] == 1.0]
    return [{"id": row, "prompt": prompt, "options": options, "answer": answer} for row, prompt, answer in told]


def hold_out(bench: Bench) -> Rows:
    """Of each held-out row the right action, and the likeliest wrong one by the base."""
    pairs = []
    for row, line in zip(bench.held_out, bench.predict(bench.base, bench.held_out), strict=True):
        chances = dict(zip(row["options"], line["p"], strict=True))
        rival = max((option for option in chances if option != row["answer"]), key=chances.__getitem__)
        pairs.append({"id": row["id"], "prompt": row["prompt"], "chosen": row["answer"], "rejected": rival})
    return pairs


def tell(before: float, right: list[bool], gain: Interval, cpu: float) -> str:
    after = sum(right) / len(right)
    return f"{before:.3f} → {after:.3f} [{gain.low:+.3f}, {gain.high:+.3f}], {cpu:.0f} CPU s"


def measure(report: Report, world: str, seed: int, bench: Bench, kind: str, rows: Rows, held_out: Rows) -> None:
    groups = [row["group"] for row in bench.held_out]
    before = sum(bench.right) / len(bench.right)
    base = {"base": {"path": str(bench.base)}}
    spec: dict[str, Any] = {"optimiser": {"learning_rate": 1e-3, "epochs": EPOCHS[kind]}, "evaluate": {}}
    if kind == MORE:
        spec["data"] = {"rows": "labelled", "heldout_rows": "preferences"}
    told = bench.runs.run(f"{kind} judge", "reward_model", {**base, **spec}, train=rows, heldout=held_out)
    ordered = [line["correct"] for line in told.predictions()]
    gain = paired_difference(ordered, bench.right, groups)
    error = told.result["metrics"]["heldout_calibration_error"]
    report.add(
        f"{world}, {kind}, seed {seed}: held-out pairs ordered rightly",
        bound="> 0" if kind == MORE else "told",
        figure=f"{tell(before, ordered, gain, told.cpu)}; {told.result['rows']} pairs; calibration error {error:.3f}",
        passed=gain.low > 0 or kind == FEW,
    )
    fresh = {
        "optimiser": {"learning_rate": 1e-3},
        "online": {"steps": bench.sizes.steps},
        "reward": [{"name": "model", "source": {"path": str(told.output)}}],
    }
    policy = bench.runs.run(f"{kind} policy", "grpo", {**base, **fresh}, train=bench.rows["prompts"])
    right = [line["correct"] for line in bench.predict(policy.output, bench.held_out)]
    gain = paired_difference(right, bench.right, groups)
    report.add(
        f"{world}, {kind}, seed {seed}: accuracy of grpo by it",
        bound=TOLD if kind == MORE else "told",
        figure=tell(before, right, gain, policy.cpu),
        passed=gain.low > 0 or kind == FEW or bool(METHODS["reward_model"].weak),
    )


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, fewer rows and a smaller model")
    parser.add_argument("--worlds", default="domains,filer", help="which worlds, with commas")
    options = parse(parser, "clinc150")
    queries, sizes = read_queries(options.data), QUICK if options.quick else WHOLE
    report = Report("reward_model")
    for name in options.worlds.split(","):
        for seed, runs in each_seed(sizes.seeds, max_prompt_tokens=40):
            bench = Bench(runs, WORLDS[name], queries, seed, sizes)
            kinds = {FEW: bench.rows["pairs"], MORE: answers_of_verdicts(bench)}
            held_out = hold_out(bench)
            for kind, rows in kinds.items():
                measure(report, name, seed, bench, kind, rows, held_out)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
