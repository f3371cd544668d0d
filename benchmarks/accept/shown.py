"""What tests show, as rows of an acceptance run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tools.instance import ROOT
from tools.report import Report, log

COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def shown_rows(report: Report, shown: Mapping[str, Sequence[str]]) -> None:
    """A row for each claim, from the tests that show it. Tests that were skipped show nothing."""
    for what, tests in shown.items():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        counts = {word: int(number) for number, word in COUNTED.findall((ran.stdout.splitlines() or [""])[-1])}
        told = ", ".join(f"{number} {word}" for word, number in counts.items()) or f"exit {ran.returncode}"
        passed = ran.returncode == 0 and counts.get("passed", 0) > 0 and "skipped" not in counts
        report.add(what, bound="all pass, none skipped", figure=told, passed=passed)
        if not passed:
            log(ran.stdout[-3000:] + ran.stderr[-1000:])
