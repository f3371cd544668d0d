"""Exporting a million decisions: rows a second, and how far memory grows.

    python -m benchmarks.export [--quick]

A million decisions (100,000 with --quick) of two workspaces, nine tenths in the one that is exported, with feedback on
half of them and rewards, as in `benchmarks.home`; a database of its own, dropped at the end. Each format is exported
whole by a process of its own, as the endpoint streams it; its memory is compared with what it was after two pages.
Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
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

ROOT = Path(__file__).resolve().parents[1]
GROWTH_MB = 20.0
PAGES = 2
EXPORT = """
import json, pathlib, re, sys, time
import django
django.setup()
from decisions.export import PAGE, ExportChoice, export_lines
from decisions.export_api import in_chunks
from workspaces.models import Workspace
workspace = Workspace.objects.get(id=sys.argv[1])
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
before, began = peak(), time.perf_counter()
rows, size = export(None)
seconds = time.perf_counter() - began
print(json.dumps({"rows": rows, "megabytes": round(size / 1e6, 1), "seconds": round(seconds, 2),
                  "rows_per_second": round(rows / seconds), "peak_rss_mb": round(peak(), 1),
                  "grown_mb": round(peak() - before, 1)}))
"""


def export(workspace: Any, format: str) -> dict[str, Any]:
    from django.db import connection

    name = connection.settings_dict["NAME"]
    code = f"from project import settings_test as s; s.DATABASES['default']['NAME'] = {name!r}\n{EXPORT}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(workspace.id), format, str(PAGES)],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings_test"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    quick = parser.parse_args().quick
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings_test")
    began = time.monotonic()
    import django

    django.setup()
    from django.conf import settings
    from django.test.utils import get_runner, setup_test_environment, teardown_test_environment
    from django.utils import timezone

    from benchmarks.home import fill

    setup_test_environment(debug=False)
    runner = get_runner(settings)(verbosity=0, interactive=False)
    databases = runner.setup_databases(serialized_aliases=set())
    try:
        workspace = fill(100_000 if quick else 1_000_000, timezone.now())
        figures = {format: export(workspace, format) for format in ("chat", "completion")}
    finally:
        runner.teardown_databases(databases)
        teardown_test_environment()
    passed = True
    for format, found in figures.items():
        passed &= found["grown_mb"] <= GROWTH_MB
        verdict = "pass" if found["grown_mb"] <= GROWTH_MB else "FAIL"
        print(
            f"{format}: memory over that of {PAGES} pages, MB   <= {GROWTH_MB:<6.0f} {found['grown_mb']:<8} {verdict}"
        )
        print(
            f"{format}: {found['rows']:,} rows, {found['rows_per_second']:,} a second, peak {found['peak_rss_mb']} MB"
        )
    report = {"benchmark": "export", "quick": quick, "passed": passed, "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps({**report, "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
