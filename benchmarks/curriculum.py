"""What a curriculum changes: GRPO on fresh decisions in three orders of prompts, on worlds of graded difficulty.

    python -m benchmarks.curriculum [--data DIR] [--worlds domains,…] [--seeds 3] [--quick]

*domains*: CLINC150's queries and their ten domains, of which a tiny base was taught between 160 and 2 examples.
*intents*: the 150 intents, 8 examples of each; of *rare intents*, one of half of them. *sums*: word problems in the
manner of GSM8K, made here, of one to four additions and subtractions within 0 to 9; the ten digits are the options, and
the base was taught one step and a little of two. *easy sums*: the same, but 85 % of the prompts have the one step that
the base knows. From the base, `grpo` learns in random order, with `easy_first` and with `uncertain`: the same number of
updates and of rewards. Prints for each the held-out accuracy, also per slice, the paired difference to random order
with its interval (95 %, clustered by intent), and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.methods import read_queries
from models_registry.statistics.intervals import paired_difference
from tools.report import Report, log
from training.engine.__main__ import main as engine

ROOT = Path(__file__).resolve().parents[1]
ORDERS: Mapping[str, dict[str, Any] | None] = {
    "random": None,
    "easy_first": {"order": "easy_first"},
    "uncertain": {"order": "uncertain"},
}
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class World:
    """What a base is taught, on what it then decides, and what it is measured on; `group` is a row's slice."""

    taught: Rows
    prompts: Rows
    held_out: Rows
    pretrain: Mapping[str, Any]
    online: Mapping[str, Any]


# Worlds

TAUGHT_OF_DOMAIN = (160, 110, 80, 55, 40, 25, 15, 8, 5, 2)


def filing(queries: Sequence[tuple[str, str, str]], seed: int, quick: bool, *, by_intent: bool, rare: int = 0) -> World:
    """Of `rare` of the labels the base is taught one example each."""
    rng = random.Random(f"{seed}/filing")
    shuffled = rng.sample(queries, len(queries))
    names = sorted({intent if by_intent else domain for _, intent, domain in queries})
    counts = [1] * rare + [8] * (len(names) - rare) if by_intent else list(TAUGHT_OF_DOMAIN)
    left = dict(zip(rng.sample(names, len(names)), counts, strict=True))
    taught: Rows = []
    others: Rows = []
    for number, (text, intent, domain) in enumerate(shuffled):
        answer = intent if by_intent else domain
        row = {"id": str(number), "prompt": text, "options": names, "answer": answer, "group": intent}
        if left[answer] > 0:
            left[answer] -= 1
            taught.append(row)
        else:
            others.append(row)
    held_out = 400 if quick else 1_500
    return World(
        taught,
        others[held_out : held_out + 4_000],
        others[:held_out],
        {"learning_rate": 3e-3, "epochs": 12},
        {"steps": 20 if quick else 120},
    )


NAMES, THINGS = "Ann Ben Cleo Dan Eve Finn".split(), "pens eggs cards coins shells books".split()  # noqa: SIM905
MORE, FEWER = ("gets", "finds", "buys"), ("loses", "sells", "gives away")


def problem(rng: random.Random, steps: int) -> tuple[str, str]:
    """A word problem of so many steps, and its result."""
    name, thing, total = rng.choice(NAMES), rng.choice(THINGS), rng.randint(0, 9)
    sentences = [f"{name} has {total} {thing}."]
    for _ in range(steps):
        more = total < 9 and (total == 0 or rng.random() < 0.5)
        number = rng.randint(1, 9 - total if more else total)
        total += number if more else -number
        sentences.append(f"{name} {rng.choice(MORE if more else FEWER)} {number}.")
    return " ".join([*sentences, "How many?"]), str(total)


def sums(seed: int, quick: bool, shares: Sequence[int]) -> World:
    """`shares` of the prompts have 1, 2, 3 and 4 steps; of the held-out ones a quarter each."""
    rng = random.Random(f"{seed}/sums")
    seen: set[str] = set()

    def some(count: int, steps: Callable[[], int]) -> Rows:
        rows: Rows = []
        while len(rows) < count:
            number = steps()
            text, result = problem(rng, number)
            if text not in seen:
                seen.add(text)
                options = [str(digit) for digit in range(10)]
                rows.append(
                    {
                        "id": str(len(seen)),
                        "prompt": text,
                        "options": options,
                        "answer": result,
                        "group": f"{number} steps",
                    }
                )
        return rows

    taught = some(800, lambda: 1) + some(200, lambda: 2)
    rng.shuffle(taught)
    held_out = some(400 if quick else 2_000, lambda: rng.randint(1, 4))
    prompts = some(4_000, lambda: rng.choices((1, 2, 3, 4), shares)[0])
    return World(taught, prompts, held_out, {"learning_rate": 3e-3, "epochs": 30}, {"steps": 20 if quick else 300})


# Runs of the engine, in this process


def run(folder: Path, spec: dict[str, Any], rows: Rows, seed: int, field: str = "train") -> Path:
    """The folder of the only attempt. Raises RuntimeError where it failed."""
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    full = {"run_id": "x", "seed": seed, "threads": 1, "max_prompt_tokens": 64, **spec, "data": {field: "rows.jsonl"}}
    (folder / "spec.json").write_text(json.dumps(full), encoding="utf-8")
    if code := engine([str(folder), "--attempt", "1"]):
        raise RuntimeError(f"{folder.name} ended with {code}")
    return folder / "attempts" / "1"


def measure(folder: Path, model: Path, rows: Rows) -> list[bool]:
    """Whether the likeliest option of each row is the right one."""
    spec = {"method": "evaluate", "base": {"path": str(model)}, "evaluate": {"free_rows": 0}}
    told = run(folder, spec, rows, 0, "heldout") / "predictions.jsonl"
    return [json.loads(line)["correct"] for line in told.read_text(encoding="utf-8").splitlines()]


def compare(world: World, seed: int, folder: Path) -> dict[str, Any]:
    """{base, and each order: accuracy, accuracy per slice, difference to random order, CPU seconds}."""
    optimiser = {"optimiser": dict(world.pretrain), "base": {"tiny": {"hidden": 64}}}
    base = run(folder / "base", {"method": "pretrain", **optimiser}, world.taught, seed) / "model"
    right = {"base": measure(folder / "base-measured", base, world.held_out)}
    told: dict[str, Any] = {}
    for name, curriculum in ORDERS.items():
        spec = {
            "method": "grpo",
            "base": {"path": str(base)},
            "optimiser": {"learning_rate": 1e-3},
            "online": {**world.online, "curriculum": curriculum},
            "reward": [{"name": "matches_answer"}],
        }
        began = time.process_time()
        model = run(folder / name, spec, world.prompts, seed) / "model"
        told[name] = {"cpu_seconds": round(time.process_time() - began, 1)}
        right[name] = measure(folder / f"{name}-measured", model, world.held_out)
    clusters = [row["id"] if "steps" in row["group"] else row["group"] for row in world.held_out]
    slices = [row["group"] if "steps" in row["group"] else "" for row in world.held_out]
    for name, correct in right.items():
        mine = told.setdefault(name, {})
        mine["accuracy"] = round(sum(correct) / len(correct), 4)
        if any(slices):
            mine["slices"] = means_of(correct, slices)
        if name not in ("base", "random"):
            gain = paired_difference(correct, right["random"], clusters)
            mine["against_random"] = [round(gain.mean, 4), round(gain.low, 4), round(gain.high, 4)]
    return told


def means_of(correct: Sequence[bool], slices: Sequence[str]) -> dict[str, float]:
    found: dict[str, list[bool]] = defaultdict(list)
    for value, name in zip(correct, slices, strict=True):
        found[name].append(value)
    return {name: round(sum(values) / len(values), 3) for name, values in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument(
        "--worlds", default="domains,intents,rare intents,sums,easy sums", help="which worlds, with commas"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, few updates and held-out rows")
    options = parser.parse_args()
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    queries = read_queries(options.data)
    makers: Mapping[str, Callable[[int], World]] = {
        "domains": lambda seed: filing(queries, seed, options.quick, by_intent=False),
        "intents": lambda seed: filing(queries, seed, options.quick, by_intent=True),
        "rare intents": lambda seed: filing(queries, seed, options.quick, by_intent=True, rare=75),
        "sums": lambda seed: sums(seed, options.quick, (1, 1, 1, 1)),
        "easy sums": lambda seed: sums(seed, options.quick, (17, 1, 1, 1)),
    }
    report = Report("curriculum")
    for name in options.worlds.split(","):
        for seed in range(1 if options.quick else options.seeds):
            with tempfile.TemporaryDirectory(prefix="curriculum-") as folder:
                found = compare(makers[name](seed), seed, Path(folder))
            log(f"{name}, seed {seed}: {json.dumps(found)}")
            told = ", ".join(
                f"{order} {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
                for order in ("easy_first", "uncertain")
                for mean, low, high in [found[order]["against_random"]]
            )
            base, random_order = found["base"]["accuracy"], found["random"]["accuracy"]
            figure = f"{base:.3f} → {random_order:.3f} in random order; less that: {told}"
            report.add(f"{name}, seed {seed}", bound="told", figure=figure, passed=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
