"""The auto-labeler on CLINC150's ten domains: what share it suggests, and how often it is right.

    python -m benchmarks.suggestions [--data DIR] [--quick]

For each of five seeds (one with --quick) a classifier learns from 1,000 labelled queries and suggests the domain of
2,000 others, whose human labels it never saw. Prints a row per seed and one JSON object as the last line; exits 1 when
one misses a bound.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from decisions.labelling.classifier import fit
from tools.report import Report

ROOT = Path(__file__).resolve().parents[1]
LABELS, HELD_OUT, SEEDS = 1_000, 2_000, 5
COVERAGE, PRECISION = 0.5, 0.95
Queries = Sequence[tuple[str, str]]
"""Each with its domain."""


def read_queries(data: Path) -> list[tuple[str, str]]:
    """Each query with its domain."""
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    return [(text, domain_of[intent]) for part in ("train", "val", "test") for text, intent in found[part]]


def read_seeds(description: str | None, first: int, held_out: int) -> Iterator[tuple[int, Queries, Queries]]:
    """What the command line asks for: each seed with `first` queries, and as many as are `held_out`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args()
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    queries = read_queries(options.data)
    for seed in range(1 if options.quick else SEEDS):
        chosen = random.Random(seed).sample(queries, first + held_out)
        yield seed, chosen[:first], chosen[first:]


def main() -> int:
    report = Report("suggestions")
    for seed, labelled, held_out in read_seeds(__doc__, LABELS, HELD_OUT):
        began = time.process_time()
        fitted = fit([text for text, _ in labelled], [domain for _, domain in labelled], seed=seed)
        found = fitted.suggest([text for text, _ in held_out])
        cpu = time.process_time() - began
        given = [one.action == domain for one, (_, domain) in zip(found, held_out, strict=True) if one is not None]
        coverage = len(given) / HELD_OUT
        precision = sum(given) / len(given) if given else 0.0
        report.add(
            f"seed {seed}: coverage; precision of suggestions",
            bound=f">= {COVERAGE}; >= {PRECISION}",
            figure=f"{coverage:.3f}; {precision:.3f} ({cpu:.1f} CPU s; promised {fitted.coverage:.3f}; "
            f"{fitted.precision or 0:.3f})",
            passed=coverage >= COVERAGE and precision >= PRECISION,
        )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
