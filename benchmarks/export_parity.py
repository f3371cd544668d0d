"""One trained FILER through every format: what each file weighs, takes and decides beside the version.

    python -m benchmarks.export_parity [--hidden 128] [--formats merged,onnx,gguf] [--output FILE] [--quick]

A tiny base of this width learns to file documentation passages into eight topics, and an adapter is trained over it:
together they are the version. It is exported as LoRA, merged weights, ONNX with and without a cache, and GGUF in seven
quantisations. Each is loaded in its own runtime and compared with the version on passages of modules that it never saw
(docs/export.md). Prints a row per format, whose bound is that of an export job, and one JSON object as the last line;
--output has the whole reports. Exits 1 when a format misses its bound. Needs the extra `export`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_runs import Rows, Runs
from project.demo.passages import Passage, build_world
from tools.report import Report, log
from training.engine.export_formats import QUANTISATIONS

SEED = 0
PROMPT_TOKENS = 64


class Sizes(NamedTuple):
    taught: int
    learnt: int
    held_out: int


WHOLE = Sizes(taught=1_500, learnt=1_500, held_out=500)
QUICK = Sizes(taught=300, learnt=200, held_out=100)
PLANS: dict[str, dict[str, Any]] = {
    "lora": {"format": "lora"},
    "merged": {"format": "merged"},
    "onnx": {"format": "onnx"},
    "onnx, cache": {"format": "onnx", "cache": True},
    **{f"gguf {name}": {"format": "gguf", "quantisation": name} for name in reversed(QUANTISATIONS)},
}


def rows_of(passages: tuple[Passage, ...], topics: tuple[str, ...]) -> Rows:
    return [
        {"id": one.id, "prompt": one.text, "options": list(topics), "answer": one.topic, "group": one.module}
        for one in passages
    ]


def train_version(runs: Runs, hidden: int, sizes: Sizes, train: Rows) -> dict[str, str]:
    """Base and adapter, as the engine's source. The rate falls with the width (muP for Adam, Yang et al. 2022)."""
    taught, learnt = train[: sizes.taught], train[sizes.taught : sizes.taught + sizes.learnt]
    pretrain = {
        "base": {"tiny": {"hidden": hidden, "vocabulary": 2000}},
        "optimiser": {"learning_rate": 3e-3 * 128 / hidden, "epochs": 8, "token_dropout": 0.1},
    }
    base = runs.run("base", "pretrain", pretrain, train=taught).output
    adapt = {"base": {"path": str(base)}, "lora": {"r": 16, "alpha": 32}, "optimiser": {"learning_rate": 3e-3}}
    return {"path": str(base), "adapter": str(runs.run("adapter", "sft", adapt, train=learnt).output)}


def add_row(report: Report, name: str, told: dict[str, Any]) -> None:
    parity = told["parity"]
    bound = "reported" if parity["bound"] is None else f"≥ {parity['bound']:g}, same tokens"
    figure = (
        f"{parity['equal_decisions']:.4f} of {parity['decisions']}, top-1 {parity['top1']:.4f}, KL {parity['kl']:.2g} "
        f"(at most {parity['kl_largest']:.2g}), accuracy {parity['version']['accuracy']:.3f} → "
        f"{parity['export']['accuracy']:.3f}, {told['bytes']:,} bytes, {told['seconds_written']:.1f} + "
        f"{told['seconds_compared']:.1f} s"
    )
    report.add(name, bound=bound, figure=figure, passed=not parity["refusals"])
    for reason in [*parity["refusals"], *parity["limits"]]:
        log(f"{name}: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=128, help="of the base; from 256 on k-quants fit")
    parser.add_argument("--formats", default=",".join(("lora", "merged", "onnx", "gguf")), help="which, by their names")
    parser.add_argument("--output", type=Path, help="where the whole reports go, as JSON")
    parser.add_argument("--quick", action="store_true", help="few rows: the bounds need not hold")
    options = parser.parse_args()
    sizes, wanted = QUICK if options.quick else WHOLE, set(options.formats.split(","))
    report, reports = Report("export_parity"), {}
    world = build_world(SEED)
    with tempfile.TemporaryDirectory(prefix="reckoner-parity-") as folder:
        runs = Runs(Path(folder), SEED, max_prompt_tokens=PROMPT_TOKENS, samples=0)
        version = train_version(runs, options.hidden, sizes, rows_of(world.train, world.topics))
        heldout = rows_of(world.heldout[: sizes.held_out], world.topics)
        for name, plan in PLANS.items():
            if plan["format"] in wanted:
                told = runs.run(f"as {name}", "export", {"base": version, "export": plan}, heldout=heldout).result
                reports[name] = told["export"]
                add_row(report, f"{name}, hidden {options.hidden}", told["export"])
    if options.output is not None:
        options.output.write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
