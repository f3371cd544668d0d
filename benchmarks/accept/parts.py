"""An acceptance run that consists of named parts: its command line, and its report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from tools.report import Report, log

Parts = Mapping[str, Callable[[Report, bool], None]]


def run_parts(name: str, parts: Parts, *, description: str | None, quick: str) -> int:
    """Runs the parts that `--only` names, else all, and returns the exit code. `quick` says what `--quick` does."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", action="extend", choices=parts, metavar="NAME", help=", ".join(parts))
    parser.add_argument("--quick", action="store_true", help=quick)
    options = parser.parse_args()
    report = Report(name)
    for part in options.only or parts:
        log(part)
        parts[part](report, options.quick)
    return report.finish()
