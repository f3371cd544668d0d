"""STORER and RETRIEVER learn to write JSON texts from what outside policies wrote, through TRL.

    python -m benchmarks.text_agents [--data DIR] [--agents storer,retriever] [--methods sft,kto,…] [--quick]

CLINC150's queries are the requests. STORER writes where the note of a query's domain goes, or puts a query out of scope
into cold storage; RETRIEVER writes which domain it found and cites its document. With the 150 intents in the texts a
tiny model wrote next to no held-out text right (0 to 0.03). For each of three seeds (one smaller with --quick) a tiny
base has learnt to choose among the texts for 300 requests. `sft` then learns from 600 texts that people wrote; `kto`,
`dpo`, and `grpo` on stored and on fresh texts go on from there, with 200 requests that an outside policy answered
twice, rightly in 55 %, without any propensity. Held-out requests are answered by greedy generation. Prints a row per
agent and method, with the share of valid JSON and of right texts before and after, and one JSON object as the last
line; exits 1 where a method that follows `sft` loses more than 2 points of valid JSON, or `sft` leaves less than 95 %.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_runs import Done, Query, Rows, Runs, each_seed, make_parser, parse, read_queries, told
from tools.report import Report, log

RIGHT, WRONG_FEEDBACK = 0.55, 0.05
VALID, LOSS = 0.95, 0.02


class Sizes(NamedTuple):
    seeds: int
    labels: int
    demonstrations: int
    requests: int
    held_out: int
    epochs: int
    steps: int
    hidden: int


WHOLE = Sizes(seeds=3, labels=300, demonstrations=600, requests=200, held_out=200, epochs=12, steps=16, hidden=64)
QUICK = Sizes(seeds=1, labels=300, demonstrations=300, requests=200, held_out=100, epochs=15, steps=5, hidden=64)


def words(name: str) -> str:
    return name.replace("_", " ")


def storer(query: Query) -> dict[str, Any]:
    if not query.domain:
        return {"integrationDecision": "COLD_STORAGE"}
    return {
        "integrationDecision": "INTEGRATE",
        "location": words(query.domain),
        "method": "APPEND",
        "suggestedContent": f"about {words(query.domain)}",
    }


def retriever(query: Query) -> dict[str, Any]:
    if not query.domain:
        return {"generatedContent": "nothing is known of this", "sourceCitations": []}
    return {
        "generatedContent": f"see {words(query.domain)}",
        "sourceCitations": [f"doc-{query.domain.replace('_', '-')}"],
    }


AGENTS: Mapping[str, Callable[[Query], dict[str, Any]]] = {"storer": storer, "retriever": retriever}


class World:
    """One agent's requests with one seed, and the runs on them."""

    def __init__(self, runs: Runs, agent: str, queries: Sequence[Query], sizes: Sizes, seed: int) -> None:
        self.runs, self.write, self.sizes = runs, AGENTS[agent], sizes
        self.rng = random.Random(f"{agent}/{seed}")
        chosen = self.rng.sample(list(queries), sizes.demonstrations + sizes.requests + sizes.held_out)
        self.demonstrations, rest = chosen[: sizes.demonstrations], chosen[sizes.demonstrations :]
        self.requests, self.held_out = rest[: sizes.requests], rest[sizes.requests :]

    def text(self, query: Query) -> str:
        return json.dumps(self.write(query))

    def texts(self, queries: Sequence[Query]) -> Rows:
        return [{"id": str(n), "prompt": query.text, "completion": self.text(query)} for n, query in enumerate(queries)]

    def answered(self) -> Rows:
        """What the outside policy wrote, twice for each request, and what a person's feedback made of it."""
        rows = []
        for n, query in enumerate(self.requests):
            for again in range(2):
                right = self.rng.random() < RIGHT
                told = self.text(query if right else self.rng.choice(self.demonstrations))
                reward = float((told == self.text(query)) != (self.rng.random() < WRONG_FEEDBACK))
                rows.append({"id": f"{n}/{again}", "prompt": query.text, "completion": told, "reward": reward})
        return rows

    def corrections(self, answered: Rows) -> Rows:
        """What people wrote in the place of texts that they called wrong."""
        right = {query.text: self.text(query) for query in self.requests}
        return [
            {"id": row["id"], "prompt": row["prompt"], "chosen": right[row["prompt"]], "rejected": row["completion"]}
            for row in answered
            if row["reward"] == 0.0 and row["completion"] != right[row["prompt"]]
        ]

    def run(self, name: str, spec: dict[str, Any], train: Rows) -> Done:
        """Measured before and after on the held-out requests. There is room for the longest of the texts."""
        spec = {"evaluate": {"batch_size": 64}, **spec}
        heldout = [row | {"source": "human"} for row in self.texts(self.held_out)]
        return self.runs.run(name, name.partition(" ")[0], spec, train=train, heldout=heldout)

    def make_base(self) -> Path:
        """A tiny model that has learnt to choose among the texts of some requests, not to write them freely."""
        known = self.demonstrations[: self.sizes.labels]
        options = sorted({self.text(query) for query in known})
        rows: Rows = [
            {"id": str(n), "prompt": query.text, "options": options, "answer": self.text(query)}
            for n, query in enumerate(known)
        ]
        spec = {
            "base": {"tiny": {"hidden": self.sizes.hidden}},
            "optimiser": {"learning_rate": 3e-3, "epochs": 20},
        }
        return self.runs.run("base", "pretrain", spec, train=rows).output


def spec_of(method: str, sizes: Sizes) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "optimiser": {"learning_rate": 3e-4, "epochs": 2, "batch_size": 32},
        "data": {"rows": "preferences" if method == "dpo" else "text", "heldout_rows": "text"},
    }
    if method == "sft":
        spec["optimiser"] = {"learning_rate": 4e-3, "epochs": sizes.epochs, "batch_size": 32}
    if method == "grpo fresh":
        spec["online"] = {"steps": sizes.steps, "prompts_per_step": 16, "group": 8}
        spec["reward"] = [{"name": "matches_answer"}, {"name": "valid_json", "weight": 0.2}]
    return spec


FOLLOWING = ("kto", "dpo", "grpo stored", "grpo fresh")


def measure(world: World, methods: Sequence[str]) -> dict[str, Done]:
    """By method, `sft` first."""
    answered = world.answered()
    rows = {"kto": answered, "grpo stored": answered, "grpo fresh": world.texts(world.requests)}
    rows["dpo"] = world.corrections(answered)
    base = {"path": str(world.make_base())}
    found = {"sft": world.run("sft", spec_of("sft", world.sizes) | {"base": base}, world.texts(world.demonstrations))}
    for method in methods:
        spec = spec_of(method, world.sizes) | {"base": {"path": str(found["sft"].output)}}
        found[method] = world.run(method, spec, rows[method])
    return found


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, small")
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--methods", default=",".join(FOLLOWING), help="that follow sft")
    options = parse(parser, "clinc150")
    queries, sizes = read_queries(options.data, outside=True), QUICK if options.quick else WHOLE
    report = Report("text_agents")
    for agent in options.agents.split(","):
        seeds: list[dict[str, Done]] = []
        for seed, runs in each_seed(sizes.seeds, max_prompt_tokens=48):
            world = World(runs, agent, queries, sizes, seed)
            seeds.append(measure(world, [name for name in options.methods.split(",") if name]))
            log(f"{agent}, seed {seed}: {sum(done.cpu for done in seeds[-1].values()):.0f} CPU s")
        for method in seeds[0]:
            found = [one[method] for one in seeds]
            valid, right = _scores(found, "valid_share"), _scores(found, "accuracy")
            kept = [after >= (VALID if method == "sft" else before - LOSS) for before, after in valid]
            report.add(
                f"{agent}, {method}: valid JSON; right texts, before → after",
                bound=f">= {VALID}" if method == "sft" else f"valid >= before - {LOSS}",
                figure=f"{told(valid)}; {told(right)} ({sum(done.cpu for done in found) / len(found):.0f} CPU s)",
                passed=options.quick or all(kept),
            )
    return report.finish()


def _scores(found: Sequence[Done], name: str) -> list[tuple[float, float]]:
    """Before and after, by seed."""
    scores = [done.result["scores"] for done in found]
    return [(one["base"][name], one["trained"][name]) for one in scores]


if __name__ == "__main__":
    sys.exit(main())
