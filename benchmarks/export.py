"""Exporting a million decisions: rows a second, and how far memory grows.

    python -m benchmarks.export [--quick] [--keep DIR]

A million decisions (100,000 with --quick) of two workspaces, nine tenths in the one that is exported, with feedback on
half of them, labels and rewards (`benchmarks.large_ledger`; --keep takes a ledger that is kept there). Each format is
exported whole by a process of its own, as the endpoint streams it; its memory is compared with what it was after two
pages, and after a tenth. Prints a row per point and one JSON object as the last line; exits 1 when a point misses its
bound.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.large_ledger import large_ledger

ROOT = Path(__file__).resolve().parents[1]
GROWTH_MB = 20.0
PAGES = 2
EXPORT = """
import json, pathlib, re, sys, time
import django
django.setup()
from decisions.queries.export import PAGE, ExportChoice, export_lines
from decisions.api.export import in_chunks
from workspaces.models import Workspace
workspace = Workspace.objects.get(slug=sys.argv[1])
def export(limit):
    lines = export_lines(workspace=workspace, chosen=ExportChoice(limit=limit), format=sys.argv[2])
    rows = size = 0
    for chunk in in_chunks(lines):
        rows += chunk.count(b"\\n")
        size += len(chunk)
    return rows, size
def peak():
    # Not ru_maxrss: that one is handed down from the parent, which is larger.
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
export(int(sys.argv[3]) * PAGE)
few = peak()
export(int(sys.argv[4]))
tenth, began, cpu = peak(), time.perf_counter(), time.process_time()
rows, size = export(None)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps({"rows": rows, "megabytes": round(size / 1e6, 1), "seconds": round(seconds, 2),
                  "rows_per_second": round(rows / seconds), "cpu_us_a_row": round(cpu / rows * 1e6, 1),
                  "peak_rss_mb_few": round(few, 1), "peak_rss_mb_tenth": round(tenth, 1),
                  "peak_rss_mb": round(peak(), 1), "grown_mb": round(peak() - few, 1)}))
"""


def export(slug: str, format: str, tenth: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, slug, format, str(PAGES), str(tenth)],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings_test"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the ledger there, and use the one that is there")
    options = parser.parse_args()
    began = time.monotonic()
    rows = 100_000 if options.quick else 1_000_000
    with large_ledger(rows, options.keep) as slug:
        figures = {format: export(slug, format, rows // 10) for format in ("chat", "completion")}
    passed = True
    for format, found in figures.items():
        passed &= found["grown_mb"] <= GROWTH_MB
        verdict = "pass" if found["grown_mb"] <= GROWTH_MB else "FAIL"
        print(
            f"{format}: memory over that of {PAGES} pages, MB   <= {GROWTH_MB:<6.0f} {found['grown_mb']:<8} {verdict}"
        )
        print(
            f"{format}: {found['rows']:,} rows, {found['rows_per_second']:,} a second, peak {found['peak_rss_mb']} MB,"
            f" after a tenth {found['peak_rss_mb_tenth']} MB"
        )
    report = {"benchmark": "export", "quick": options.quick, "passed": passed}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began, 1), "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
