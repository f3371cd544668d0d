"""Agents of the notes app learn from decisions of an outside policy, whose probabilities nobody knows, on real data.

    python -m benchmarks.agents [--data DIR] [--agents filer,prioritizer,…] [--quick]

FILER's structured actions, PRIORITIZER's rankings, LIBRARIAN's findings as scored pairs, and the documents that
RETRIEVER chooses: each file of this folder says what its world is. Every model is a tiny one that has seen nothing
before. benchmarks/text_agents.py has the texts of STORER and RETRIEVER. Three seeds (one smaller with --quick). Prints
a row per figure, by seed, with 95 % intervals, and one JSON object as the last line.
"""

from __future__ import annotations

import os
import sys

import django

from benchmarks.agents import filer, librarian, prioritizer, retriever
from benchmarks.engine_runs import make_parser, parse
from tools.report import Report

AGENTS = {
    "filer": filer.measure,
    "librarian": librarian.measure,
    "prioritizer": prioritizer.measure,
    "retriever": retriever.measure,
}


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, fewer rows")
    parser.add_argument("--agents", default=",".join(AGENTS), help="which agents, with commas")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings_test")
    django.setup()  # the product writes the rows of rankings
    options = parse(parser, "clinc150", "cisa_kev", "tau2_banking_knowledge")
    report = Report("agents")
    for name in options.agents.split(","):
        AGENTS[name](options.data, report, quick=options.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
