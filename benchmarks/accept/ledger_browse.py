"""Lists, searches and the export over a million decisions, as rows of an acceptance run.

`python -m benchmarks.accept.ledger_browse [--quick]` runs it alone; `browse_rows` adds its rows to a larger part's
Report. Both benchmarks read one ledger, filled once and removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.browse import BOUND_MS
from benchmarks.export import GROWTH_MB
from tools.instance import ROOT
from tools.report import Report, log


def run_benchmark(name: str, *arguments: str) -> dict[str, Any] | None:
    """The last line of `benchmarks.NAME`; None where it printed none, and then its errors are told."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        log(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        return None
    return found


def browse_rows(report: Report, *, quick: bool = False) -> None:
    """A row for each bounded look, and two for each format of the export."""
    keep = Path(tempfile.mkdtemp(prefix="reckoner-browse-"))
    arguments = ["--keep", str(keep), *(["--quick"] if quick else [])]
    try:
        browse = run_benchmark("browse", *arguments)
        export = run_benchmark("export", *arguments)
    finally:
        shutil.rmtree(keep, ignore_errors=True)
    report.add("browse: it ran", bound="yes", figure="yes" if browse else "no", passed=browse is not None)
    for found in browse["figures"] if browse else []:
        if found["bounded"]:
            median = found["median_ms"]
            figure = f"{median} ms, slowest {found['slowest_ms']}"
            report.add(found["look"], bound=f"<= {BOUND_MS:.0f} ms", figure=figure, passed=median <= BOUND_MS)
        else:
            log(f"{found['look']}: {found['median_ms']} ms")
    report.add("export: it ran", bound="yes", figure="yes" if export else "no", passed=export is not None)
    for format, found in (export["figures"] if export else {}).items():
        few, tenth, whole = (found[f"peak_rss_mb{part}"] for part in ("_few", "_tenth", ""))
        figure = f"{found['grown_mb']} MB ({few}, {tenth}, {whole})"
        report.add(
            f"export of {found['rows']:,} as {format}: memory over two pages'",
            bound=f"<= {GROWTH_MB:.0f} MB",
            figure=figure,
            passed=found["grown_mb"] <= GROWTH_MB,
        )
        log(f"export as {format}: {found['rows_per_second']:,} rows a second")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    quick = parser.parse_args().quick
    report = Report("ledger_browse")
    browse_rows(report, quick=quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
