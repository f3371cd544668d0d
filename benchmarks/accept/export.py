"""Exports: every format of one trained FILER, in its own runtime beside the version, and kills of the exporter.

    make accept PART=export ARGS="--only shown formats --quick"

Needs the extra `export`. Some minutes a width (hidden 256 shows GGUF's mixes without a fallback), half an hour of
kills. The part `real` fetches Gemma 3 270M by benchmarks.real_base, under Google's Gemma Terms of Use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program, program_rows, shown_rows
from tools.report import Report

ENGINE = "tests/training/engine"
SHOWN: Mapping[str, list[str]] = {
    "exports are compared in their own runtime, and refused where they differ": [f"{ENGINE}/test_exporting.py"],
    "export jobs: options, refusals before and after the work": ["tests/training/test_export_jobs.py"],
    "an export outlives its engine and its worker, and ends when it is cancelled": [
        "tests/training/test_export_kills.py",
        f"{ENGINE}/test_watched_work.py",
    ],
    "an export is downloaded by an admin": ["tests/project/registry/test_export_download.py"],
    "GGUF: three shapes, seven quantisations": [f"{ENGINE}/test_gguf.py"],
    "GGUF in llama.cpp's server decides and cuts prompts as the version": [f"{ENGINE}/test_gguf_served.py"],
    "Ollama: made, listed, switched, deleted, at the end of a pipeline": [
        "tests/training/test_ollama.py::test_a_version_is_deployed_listed_switched_and_deleted",
        "tests/training/test_ollama.py::test_what_cannot_be_deployed_is_refused_and_nothing_is_sent",
        "tests/training/pipeline",
    ],
}


def shown(report: Report, quick: bool) -> None:
    shown_rows(report, SHOWN)


def formats(report: Report, quick: bool) -> None:
    """Every format of the demo's FILER, and the quantisations again at a width of which k-quants are whole."""
    more = ["--quick"] if quick else []
    program_rows(report, "benchmarks.export_parity", *more)
    program_rows(report, "benchmarks.export_parity", "--hidden", "256", "--formats", "gguf", *more)


def real(report: Report, quick: bool) -> None:
    """A pretrained model through GGUF and back: its bytes, and what its files decide in llama.cpp."""
    program_rows(report, "benchmarks.gguf_cross_check", "--quick", "--real")
    program_rows(report, "benchmarks.export_parity", "--real")


PARTS: Mapping[str, Callable[[Report, bool], None]] = {
    "shown": shown,
    "formats": formats,
    "bytes": program("benchmarks.gguf_cross_check"),
    "real": real,
    "experiment": program("benchmarks.gguf_experiment"),
    "kills": program("benchmarks.export_kills"),
}


def main() -> int:
    return run_parts("export", PARTS, description=__doc__, quick="few rows, which need not hold; one kill a place")


if __name__ == "__main__":
    sys.exit(main())
