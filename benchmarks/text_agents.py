"""STORER and RETRIEVER learn to write JSON texts from what outside policies wrote, through TRL.

    python -m benchmarks.text_agents [--data DIR] [--agents storer,retriever] [--methods sft,kto,…] [--quick]

CLINC150's queries are the requests. STORER writes where the note goes, and as its content the intent in words, or puts
a query out of scope into cold storage; RETRIEVER writes the intent in words and cites the document of its domain: 150
texts each, which nobody enumerates. For each of three seeds (one smaller with --quick) a tiny base has learnt the ten
domains as labels. `sft` then learns from 1,500 texts that people wrote; `kto`, `dpo`, and `grpo` on stored and on fresh
texts go on from there, with 1,500 requests that an outside policy answered twice, rightly in 55 %, without any
propensity. Held-out requests are answered by greedy generation. Prints a row per agent and method, with the share of
valid JSON and of right texts before and after, and one JSON object as the last line; exits 1 where a method that
follows `sft` loses more than 2 points of valid JSON, or `sft` leaves less than 95 %.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.report import Report
from training.engine.__main__ import main as engine

ROOT = Path(__file__).resolve().parents[1]
RIGHT, WRONG_FEEDBACK = 0.55, 0.05
VALID, LOSS = 0.95, 0.02
Rows = list[dict[str, Any]]
Scores = Mapping[str, Mapping[str, float]]


class Sizes(NamedTuple):
    seeds: int
    labels: int
    demonstrations: int
    requests: int
    held_out: int
    epochs: int
    steps: int
    hidden: int


WHOLE = Sizes(seeds=3, labels=500, demonstrations=1_500, requests=1_500, held_out=500, epochs=10, steps=60, hidden=128)
QUICK = Sizes(seeds=1, labels=300, demonstrations=300, requests=200, held_out=100, epochs=15, steps=5, hidden=64)


class Query(NamedTuple):
    text: str
    intent: str
    domain: str


def storer(query: Query) -> dict[str, Any]:
    if not query.domain:
        return {"integrationDecision": "COLD_STORAGE"}
    return {
        "integrationDecision": "INTEGRATE",
        "location": query.domain,
        "method": "APPEND",
        "suggestedContent": f"about {query.intent}",
    }


def retriever(query: Query) -> dict[str, Any]:
    if not query.domain:
        return {"generatedContent": "nothing is known of this", "sourceCitations": []}
    return {"generatedContent": f"see {query.intent}", "sourceCitations": [f"doc-{query.domain.replace(' ', '-')}"]}


AGENTS: Mapping[str, Callable[[Query], dict[str, Any]]] = {"storer": storer, "retriever": retriever}


def read_queries(data: Path) -> list[Query]:
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    inside = [
        Query(text, intent.replace("_", " "), domain_of[intent].replace("_", " "))
        for part in ("train", "val", "test")
        for text, intent in found[part]
    ]
    outside = [Query(text, "", "") for part in ("oos_train", "oos_val", "oos_test") for text, _ in found[part]]
    return inside + outside


class World:
    """One agent's requests with one seed, and the runs on them."""

    def __init__(self, folder: Path, agent: str, queries: Sequence[Query], sizes: Sizes, seed: int) -> None:
        self.folder, self.write, self.sizes, self.seed = folder, AGENTS[agent], sizes, seed
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

    def run(self, name: str, spec: dict[str, Any], train: Rows, *, measured: bool = True) -> tuple[Path, Scores, float]:
        """The model's folder, scores of base and trained, CPU seconds."""
        run = self.folder / name
        run.mkdir()
        files = {"train": train} | ({"heldout": self.texts(self.held_out)} if measured else {})
        for file, rows in files.items():
            (run / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        full = {
            "run_id": name,
            "seed": self.seed,
            "threads": 1,
            "max_prompt_tokens": 48,
            "max_completion_tokens": 128,
            **spec,
            "data": {**{file: f"{file}.jsonl" for file in files}, **spec["data"]},
            **({"evaluate": {"batch_size": 64}} if measured else {}),
        }
        (run / "spec.json").write_text(json.dumps(full))
        began = time.process_time()
        assert engine([str(run)]) == 0, name
        result = json.loads((run / "attempts/1/result.json").read_text())
        return run / "attempts/1/model", result["scores"], time.process_time() - began

    def make_base(self) -> Path:
        """A tiny model that knows the domains, and no JSON."""
        options = sorted({query.domain or "none" for query in self.demonstrations})
        rows: Rows = [
            {"id": str(n), "prompt": query.text, "options": options, "answer": query.domain or "none"}
            for n, query in enumerate(self.demonstrations[: self.sizes.labels])
        ]
        spec = {
            "method": "pretrain",
            "base": {"tiny": {"hidden": self.sizes.hidden}},
            "optimiser": {"learning_rate": 3e-3, "epochs": 8},
            "data": {},
        }
        return self.run("base", spec, rows, measured=False)[0]


def spec_of(method: str, sizes: Sizes) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "method": method.partition(" ")[0],
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


def measure(world: World, methods: Sequence[str]) -> dict[str, tuple[Scores, float]]:
    """By method, `sft` first: scores before and after, and CPU seconds."""
    answered = world.answered()
    rows = {"kto": answered, "grpo stored": answered, "grpo fresh": world.texts(world.requests)}
    rows["dpo"] = world.corrections(answered)
    base = {"path": str(world.make_base())}
    model, scores, cpu = world.run(
        "sft", spec_of("sft", world.sizes) | {"base": base}, world.texts(world.demonstrations)
    )
    found = {"sft": (scores, cpu)}
    for method in methods:
        spec = spec_of(method, world.sizes) | {"base": {"path": str(model)}}
        _, scores, cpu = world.run(method.replace(" ", "-"), spec, rows[method])
        found[method] = (scores, cpu)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--methods", default=",".join(FOLLOWING), help="that follow sft")
    parser.add_argument("--quick", action="store_true", help="one seed, small")
    options = parser.parse_args()
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    queries, sizes = read_queries(options.data), QUICK if options.quick else WHOLE
    report = Report("text_agents")
    for agent in options.agents.split(","):
        seeds: list[dict[str, tuple[Scores, float]]] = []
        for seed in range(sizes.seeds):
            with tempfile.TemporaryDirectory() as folder:
                world = World(Path(folder), agent, queries, sizes, seed)
                seeds.append(measure(world, [name for name in options.methods.split(",") if name]))
        for method in seeds[0]:
            found = [one[method] for one in seeds]
            valid = [(scores["base"]["valid_share"], scores["trained"]["valid_share"]) for scores, _ in found]
            right = [(scores["base"]["accuracy"], scores["trained"]["accuracy"]) for scores, _ in found]
            kept = [after >= (VALID if method == "sft" else before - LOSS) for before, after in valid]
            report.add(
                f"{agent}, {method}: valid JSON; right texts, before → after",
                bound=f">= {VALID}" if method == "sft" else f"valid >= before - {LOSS}",
                figure=f"{told(valid)}; {told(right)} ({sum(cpu for _, cpu in found) / len(found):.0f} CPU s)",
                passed=options.quick or all(kept),
            )
    return report.finish()


def told(pairs: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{before:.3f} → {after:.3f}" for before, after in pairs)


if __name__ == "__main__":
    sys.exit(main())
