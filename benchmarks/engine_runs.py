"""Runs of the engine in this process on rows of the real texts. The benchmarks of training call it."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from training.engine.__main__ import main as engine

ROOT = Path(__file__).resolve().parents[1]
Rows = list[dict[str, Any]]


class Query(NamedTuple):
    """Of CLINC150. Intent and domain are "" of what is in no scope."""

    text: str
    intent: str
    domain: str


class Done(NamedTuple):
    """One run: the folder of its attempt, its result.json, and the CPU seconds of this process."""

    attempt: Path
    result: Mapping[str, Any]
    cpu: float

    @property
    def output(self) -> Path:
        """The model, or the adapter over its base."""
        return self.attempt / str(self.result["output"])

    def predictions(self, model: str = "trained") -> Rows:
        """What it said of each held-out row, in their order."""
        lines = (self.attempt / self.result["predictions"]).read_text(encoding="utf-8").splitlines()
        return [row for row in map(json.loads, lines) if row["model"] == model]


class Runs:
    """Runs of one seed below `folder`, each in a folder of its name. `settings` are fields of every spec."""

    def __init__(self, folder: Path, seed: int, **settings: Any) -> None:
        self.folder = folder
        self.settings = {"seed": seed, "threads": 1, **settings}

    def run(
        self, name: str, method: str, spec: Mapping[str, Any], *, arguments: Sequence[str] = (), **files: Rows
    ) -> Done:
        """`files`: the rows by the spec's data fields; `arguments`: of the engine. Raises RuntimeError where it
        failed."""
        run = self.folder / name.replace(" ", "-").replace(",", "")
        run.mkdir()
        for file, rows in files.items():
            (run / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        full = {**self.settings, "run_id": run.name, "method": method, **spec}
        full["data"] = {**{file: f"{file}.jsonl" for file in files}, **spec.get("data", {})}
        (run / "spec.json").write_text(json.dumps(full), encoding="utf-8")
        began = time.process_time()
        if code := engine([str(run), "--attempt", "1", *arguments]):
            raise RuntimeError(f"{name} ended with {code}: {(run / 'attempts/1/events.jsonl').read_text()[-500:]}")
        seconds = time.process_time() - began
        attempt = run / "attempts" / "1"
        return Done(attempt, json.loads((attempt / "result.json").read_text()), seconds)


def each_seed(seeds: int, **settings: Any) -> Iterator[tuple[int, Runs]]:
    """Each with a folder that is gone afterwards."""
    for seed in range(seeds):
        with tempfile.TemporaryDirectory(prefix="reckoner-bench-") as folder:
            yield seed, Runs(Path(folder), seed, **settings)


def make_parser(description: str | None, *, quick: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def parse(parser: argparse.ArgumentParser, *needs: str) -> argparse.Namespace:
    """Ends the program where the folder of the data lacks what it needs."""
    options = parser.parse_args()
    for name in needs:
        if not (options.data / name).is_dir():
            parser.error(f"--data: {options.data} has no {name}/")
    return options


def read_queries(data: Path, *, outside: bool = False) -> list[Query]:
    """CLINC150's; those out of scope come last, where they are asked for."""
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    parts = ("train", "val", "test")
    queries = [Query(text, intent, domain_of[intent]) for part in parts for text, intent in found[part]]
    return queries + [Query(text, "", "") for part in parts for text, _ in found[f"oos_{part}"] if outside]


def told(pairs: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{before:.3f} → {after:.3f}" for before, after in pairs)
