"""Every training method from one base, on three worlds of real texts: what each learns, and at what cost.

    python -m benchmarks.methods [--data DIR] [--worlds domains,…] [--methods posterior,…] [--quick]

*domains*: CLINC150's queries are filed into ten domains. *filer*: the same queries get a status, a swimlane and a
priority by a fixed rule; the action is one of the 48 objects in canonical JSON. *intents*: the queries of five domains
are filed into their 75 intents. For each of three seeds (one smaller with --quick) a tiny base learns from 500 labelled
queries and decides on 2,000 others. A person, wrong in 5 %, says whether each action was right, and stays silent in
15 %. Logged methods learn from that log, those *of texts* from the same decisions as texts that were written, `grpo`
from as many decisions of a quarter of the prompts; `dpo` from corrections of the log's wrong actions, `sft` from 500
further labels. `grpo` and `ppo` also learn from fresh decisions on all prompts. None replays the base's labels.
Held-out queries are clustered by intent. Prints a row per world and method and one JSON object as the last line; exits
1 unless the paired difference in accuracy lies above 0 with its whole interval, in every seed.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_runs import Query, Rows, Runs, each_seed, make_parser, parse, read_queries
from decisions.agents.canonical import canonical
from models_registry.statistics.intervals import Interval, paired_difference
from tools.report import Report, log
from training.engine.spec.methods import METHODS

WRONG, SILENT = 0.05, 0.15
EPSILON = 0.1
DRAWS = 4  # decisions on each prompt of the groups


class Sizes(NamedTuple):
    seeds: int
    labels: int
    decisions: int
    held_out: int
    hidden: int
    steps: int


WHOLE = Sizes(seeds=3, labels=500, decisions=2_000, held_out=1_000, hidden=64, steps=60)
QUICK = Sizes(seeds=1, labels=300, decisions=600, held_out=400, hidden=64, steps=20)

# Worlds

FULL: Mapping[str, tuple[str, str]] = {
    "banking": ("TODO", "EXPEDITE"),
    "credit_cards": ("TODO", "EXPEDITE"),
    "home": ("TODO", "HOME"),
    "work": ("TODO", "PROJECT"),
    "utility": ("TODO", "HABIT"),
    "travel": ("ON_HOLD", "PROJECT"),
    "auto_and_commute": ("ON_HOLD", "HABIT"),
    "kitchen_and_dining": ("ON_HOLD", "HABIT"),
    "small_talk": ("TRASH", "HOME"),
    "meta": ("TRASH", "HOME"),
}
"""Status and swimlane of a domain's queries."""
QUESTIONS = frozenset("what what's whats how how's why when where where's who who's which".split())  # noqa: SIM905
URGENT = frozenset("need please now today asap help must".split())  # noqa: SIM905
IDLE = frozenset("would could like want can maybe later".split())  # noqa: SIM905
FIELDS = {
    "status": ("TODO", "ON_HOLD", "COMPENDIUM", "TRASH"),
    "swimlane": ("EXPEDITE", "PROJECT", "HABIT", "HOME"),
    "priority": ("HIGH", "MEDIUM", "LOW"),
}


def file_note(text: str, domain: str) -> str:
    """The rule of the world *filer*. A question is knowledge, whatever its domain; the priority is in the words."""
    words = text.split()
    status, swimlane = FULL[domain]
    if words[0] in QUESTIONS:
        status = "COMPENDIUM"
    priority = "HIGH" if URGENT & set(words) else "LOW" if IDLE & set(words) else "MEDIUM"
    return canonical({"status": status, "swimlane": swimlane, "priority": priority})


HALF = frozenset({"banking", "home", "work", "travel", "kitchen_and_dining"})
"""Domains whose intents are told apart."""


@dataclass(frozen=True, slots=True)
class World:
    """`answer`: query → the right option. `domains`: those whose queries it has. `options`: None for all answers."""

    answer: Callable[[Query], str]
    domains: frozenset[str] = frozenset(FULL)
    options: Sequence[str] | None = None


WORLDS = {
    "domains": World(lambda query: query.domain),
    "filer": World(
        lambda query: file_note(query.text, query.domain),
        options=[canonical(dict(zip(FIELDS, values, strict=True))) for values in itertools.product(*FIELDS.values())],
    ),
    "intents": World(lambda query: query.intent, HALF),
}


# What each method learns from

LOGS = {"optimiser": {"learning_rate": 2e-3, "epochs": 6}}
FRESH = {"optimiser": {"learning_rate": 1e-3}, "reward": [{"name": "matches_answer"}]}
RECIPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "posterior": ("log", LOGS),
    "reward_weighted": ("log", LOGS),
    "all_action": ("log", LOGS),
    "kto": ("log", LOGS),
    "kto, of texts": ("texts", LOGS),
    "reward_weighted, of texts": ("texts", LOGS),
    "ppo, logged": ("log", LOGS),
    "grpo, logged": ("groups", LOGS),
    "dpo": ("pairs", {"optimiser": {"learning_rate": 1e-3, "epochs": 6}}),
    "sft, LoRA": ("labels", {"lora": {"r": 16, "alpha": 32}, "optimiser": {"learning_rate": 5e-3, "epochs": 12}}),
    "grpo, fresh": ("prompts", FRESH),
    "ppo, fresh": ("prompts", FRESH),
}
"""By name: the rows it learns from and its settings."""
TOLD = "> 0 in each, or told as weak"
"""By docs, `--help` and the form that starts a run (training.engine.spec.methods)."""
KINDS = {
    "log": "logged",
    "outside": "logged",
    "groups": "logged",
    "texts": "text",
    "pairs": "preferences",
    "outside pairs": "preferences",
    "labels": "labelled",
    "prompts": "labelled",
}


def decide(rows: Rows, probabilities: Sequence[Sequence[float]], rng: random.Random) -> Rows:
    """A decision on each row by the base, a share of them at random, with what the person says of it."""
    decided = []
    for row, p in zip(rows, probabilities, strict=True):
        acting = [(1 - EPSILON) * value + EPSILON / len(p) for value in p]
        place = rng.choices(range(len(p)), acting)[0]
        action = row["options"][place]
        said = float((action == row["answer"]) != (rng.random() < WRONG))
        reward = None if rng.random() < SILENT else said
        told = {"action": action, "propensity": min(acting[place], 1.0), "reward": reward}
        decided.append({name: row[name] for name in ("id", "prompt", "options")} | told)
    return decided


def as_texts(log: Rows) -> Rows:
    """The judged decisions, as texts that the policy wrote."""
    judged = [row for row in log if row["reward"] is not None]
    return [{"completion": row["action"], **{name: row[name] for name in ("id", "prompt", "reward")}} for row in judged]


def correct(rows: Rows, log: Rows, rng: random.Random) -> Rows:
    """The person's corrections of actions that were said to be wrong; a wrong one names any other option."""
    pairs = []
    for row, decision in zip(rows, log, strict=True):
        if decision["reward"] != 0.0:
            continue
        right = row["answer"]
        if right == decision["action"]:
            right = rng.choice([option for option in row["options"] if option != decision["action"]])
        pairs.append({"id": row["id"], "prompt": row["prompt"], "chosen": right, "rejected": decision["action"]})
    return pairs


# Runs of the engine, in this process


class Bench:
    """One world and seed: its base, what that decided, and how it does on the held-out rows."""

    def __init__(self, runs: Runs, world: World, queries: Sequence[Query], seed: int, sizes: Sizes):
        self.runs, self.sizes = runs, sizes
        known = [query for query in queries if query.domain in world.domains]
        options = world.options or sorted({world.answer(query) for query in known})
        taken = random.Random(seed).sample(known, 2 * sizes.labels + sizes.decisions + sizes.held_out)
        rows: Rows = [
            {"id": str(n), "prompt": one.text, "options": options, "answer": world.answer(one), "group": one.intent}
            for n, one in enumerate(taken)
        ]
        ends = itertools.accumulate((0, sizes.labels, sizes.labels, sizes.decisions, sizes.held_out))
        taught, labels, stream, self.held_out = (rows[a:b] for a, b in itertools.pairwise(ends))
        tiny = {"hidden": sizes.hidden}
        recipe = {"optimiser": {"learning_rate": 3e-3, "epochs": 12}, "base": {"tiny": tiny}}
        self.base = runs.run("base", "pretrain", recipe, train=taught).output
        self.right = [line["correct"] for line in self.predict(self.base, self.held_out)]
        thought = [line["p"] for line in self.predict(self.base, stream)]
        rng = random.Random(f"{seed}/decisions")
        decided = decide(stream, thought, rng)
        some = len(stream) // DRAWS
        self.rows = {
            "log": decided,
            "groups": [one for _ in range(DRAWS) for one in decide(stream[:some], thought[:some], rng)],
            "texts": as_texts(decided),
            "pairs": correct(stream, decided, rng),
            "labels": labels,
            "prompts": stream,
        }

    def predict(self, model: Path, rows: Rows) -> Rows:
        """What the model, or the adapter over the base, says of each row."""
        base = {"path": str(self.base if model.name == "adapter" else model)}
        if model.name == "adapter":
            base["adapter"] = str(model)
        number = len(list(self.runs.folder.iterdir()))
        recipe = {"base": base, "evaluate": {"free_rows": 0}}
        done = self.runs.run(f"evaluate-{number}", "evaluate", recipe, heldout=rows)
        return done.predictions("trained" if model.name == "adapter" else "base")

    def learn(self, name: str, method: str, source: str, settings: Mapping[str, Any]) -> tuple[float, Interval, float]:
        """(accuracy, its paired difference from the base's, CPU seconds of the training)."""
        recipe = {"base": {"path": str(self.base)}, "data": {"rows": KINDS[source]}, **settings}
        if source == "prompts":
            recipe["online"] = {"steps": self.sizes.steps}
        done = self.runs.run(name, method, recipe, train=self.rows[source])
        right = [line["correct"] for line in self.predict(done.output, self.held_out)]
        groups = [row["group"] for row in self.held_out]
        return sum(right) / len(right), paired_difference(right, self.right, groups), done.cpu


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, fewer rows and a smaller model")
    parser.add_argument("--worlds", default=",".join(WORLDS), help="which worlds, with commas")
    parser.add_argument("--methods", default=";".join(RECIPES), help="which methods, with semicolons")
    options = parse(parser, "clinc150")
    queries, sizes = read_queries(options.data), QUICK if options.quick else WHOLE
    report = Report("methods")
    for world in options.worlds.split(","):
        found: dict[str, list[tuple[float, Interval, float]]] = {name: [] for name in options.methods.split(";")}
        bases = []
        for seed, runs in each_seed(sizes.seeds, max_prompt_tokens=40):
            bench = Bench(runs, WORLDS[world], queries, seed, sizes)
            bases.append(sum(bench.right) / len(bench.right))
            for name, learnt in found.items():
                learnt.append(bench.learn(name, name.partition(",")[0], *RECIPES[name]))
                log(f"{world}, seed {seed}: {name} {bases[-1]:.3f} → {learnt[-1][0]:.3f}, {learnt[-1][2]:.0f} CPU s")
        for name, learnt in found.items():
            figures = [
                f"{base:.3f} → {after:.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
                for base, (after, gain, _) in zip(bases, learnt, strict=True)
            ]
            seconds = sum(one for _, _, one in learnt) / len(learnt)
            better, weak = all(gain.low > 0 for _, gain, _ in learnt), METHODS[name.partition(",")[0]].weak
            report.add(
                f"{world}: {name}",
                bound=TOLD,
                figure=f"{'; '.join(figures)}; {seconds:.0f} CPU s" + ("" if better else f"; told: weak {weak}"),
                passed=better or bool(weak),
            )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
