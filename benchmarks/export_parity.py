"""One trained FILER through every format: what each file weighs, takes and decides beside the version.

    python -m benchmarks.export_parity [--hidden 128] [--formats merged,onnx,gguf] [--output FILE] [--quick]
    python -m benchmarks.export_parity --real [--cache DIR]

A tiny base of this width learns to file documentation passages into eight topics, and an adapter is trained over it:
together they are the version. It is exported as LoRA, merged weights, ONNX with and without a cache, and GGUF in seven
quantisations. Each is loaded in its own runtime and compared with the version on passages of modules that it never saw
(docs/export.md). With `--real` the version is Gemma 3 270M, pretrained, which benchmarks.real_base fetches under
Google's Gemma Terms of Use, and GGUF is compared on the built-in texts; where it cannot be had, a row says so and
fails. Prints a row per format, whose bound is that of an export job, and one JSON object as the last line;
--output has the whole reports. Exits 1 when a format misses its bound. Needs the extra `export`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_runs import Rows, Runs
from benchmarks.real_base import CACHE, Absent, fetch_base
from project.demo.passages import Passage, build_world
from tools.report import Report, log
from training.engine.spec.export_formats import QUANTISATIONS

SEED = 0
PROMPT_TOKENS = 64


class Sizes(NamedTuple):
    taught: int
    learnt: int
    held_out: int


WHOLE = Sizes(taught=1_500, learnt=1_500, held_out=500)
WIDE = Sizes(taught=5_000, learnt=2_600, held_out=500)
"""A wider one learns from more: unsure of many rows, it would decide them by any rounding."""
QUICK = Sizes(taught=300, learnt=200, held_out=100)
REAL_FORMATS = ("gguf F16", "gguf Q8_0", "gguf Q4_K_M")
"""The base came from a Q4_K_M file: between that and Q8_0 its weights are rounded twice."""
Exported = tuple[str, dict[str, Any]]
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


def export_each(
    runs: Runs, what: str, version: dict[str, str], formats: Collection[str], **heldout: Rows
) -> list[Exported]:
    """What each export says of itself, in the order of PLANS. `formats`: names of formats or of PLANS."""
    told = []
    for name, plan in PLANS.items():
        if name in formats or plan["format"] in formats:
            done = runs.run(f"{what} as {name}", "export", {"base": version, "export": plan}, **heldout)
            told.append((f"{name}, {what}", done.result["export"]))
    return told


def add_row(report: Report, name: str, told: dict[str, Any]) -> None:
    parity = told["parity"]
    bound = "reported" if parity["bound"] is None else f"≥ {parity['bound']:g}, same tokens"
    rightly = ""
    if parity["version"] is not None:
        rightly = f"accuracy {parity['version']['accuracy']:.3f} → {parity['export']['accuracy']:.3f}, "
    figure = (
        f"{parity['equal_decisions']:.4f} of {parity['decisions']}, top-1 {parity['top1']:.4f}, KL {parity['kl']:.2g} "
        f"(at most {parity['kl_largest']:.2g}), {rightly}{told['bytes']:,} bytes, {told['seconds_written']:.1f} + "
        f"{told['seconds_compared']:.1f} s"
    )
    report.add(name, bound=bound, figure=figure, passed=not parity["refusals"])
    for reason in [*parity["refusals"], *parity["limits"]]:
        log(f"{name}: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=128, help="of the base; from 256 on k-quants fit")
    parser.add_argument("--formats", default=",".join(("lora", "merged", "onnx", "gguf")), help="which, by their names")
    parser.add_argument("--real", action="store_true", help="Gemma 3 270M as GGUF, some minutes and 1 GB of disk")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where benchmarks.real_base keeps it")
    parser.add_argument("--output", type=Path, help="where the whole reports go, as JSON")
    parser.add_argument("--quick", action="store_true", help="few rows: the bounds need not hold")
    options = parser.parse_args()
    sizes = QUICK if options.quick else WHOLE if options.hidden <= 128 else WIDE
    report = Report("export_parity")
    told: list[Exported] = []
    with tempfile.TemporaryDirectory(prefix="reckoner-parity-") as folder:
        runs = Runs(Path(folder), SEED, max_prompt_tokens=PROMPT_TOKENS, samples=0)
        if options.real:
            try:
                source = {"path": str(fetch_base(options.cache))}
            except Absent as reason:
                report.add("Gemma 3 270M", bound="fetched", figure=str(reason), passed=False)
            else:
                told = export_each(runs, "Gemma 3 270M", source, REAL_FORMATS)
        else:
            world = build_world(SEED)
            version = train_version(runs, options.hidden, sizes, rows_of(world.train, world.topics))
            heldout = rows_of(world.heldout[: sizes.held_out], world.topics)
            formats = options.formats.split(",")
            told = export_each(runs, f"hidden {options.hidden}", version, formats, heldout=heldout)
    for name, one in told:
        add_row(report, name, one)
    if options.output is not None:
        options.output.write_text(json.dumps(dict(told), indent=2) + "\n", encoding="utf-8")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
