"""What tests and other programs show, as rows of an acceptance run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tools.instance import ROOT
from tools.report import Report, Row, log

COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def shown_rows(report: Report, shown: Mapping[str, Sequence[str]]) -> None:
    """A row for each claim, from the tests that show it, by name. Tests that were skipped show nothing."""
    for what, tests in shown.items():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        counts = {word: int(number) for number, word in COUNTED.findall((ran.stdout.splitlines() or [""])[-1])}
        told = ", ".join(f"{number} {word}" for word, number in counts.items()) or f"exit {ran.returncode}"
        passed = ran.returncode == 0 and counts.get("passed", 0) > 0 and "skipped" not in counts
        names = ", ".join(test.rpartition("/")[2] for test in tests)
        report.add(what, bound="all pass, none skipped", figure=f"{told}: {names}", passed=passed)
        if not passed:
            log(ran.stdout[-3000:] + ran.stderr[-1000:])


def run(command: Sequence[str], **environment: str) -> tuple[int, str, float]:
    """Exit code, output and seconds. What was given to the make around this is not given on to a make inside."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "ARGS")}
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        log(done.stdout[-2000:] + done.stderr[-1000:])
    return done.returncode, done.stdout, time.monotonic() - began


def program_rows(report: Report, module: str, *arguments: str) -> None:
    """The rows that a program reports, and another one where it ends badly for another reason than a row."""
    code, text, _ = run([sys.executable, "-m", module, *arguments])
    rows = _read_rows(text)
    for row in rows:
        what = f"{module.rpartition('.')[2]}: {row.what}"
        report.add(what, bound=row.bound, figure=row.figure, passed=row.passed)
    if not rows or (code and all(row.passed for row in rows)):
        report.add(module, bound="exit 0", figure=code, passed=code == 0)


def program(module: str) -> Callable[[Report, bool], None]:
    """The rows of a program that measures one subject."""

    def rows(report: Report, quick: bool) -> None:
        program_rows(report, module, *(["--quick"] if quick else []))

    return rows


def _read_rows(text: str) -> list[Row]:
    """From the report in the last line; where there is none, from the lines that begin with pass or FAIL."""
    lines = text.splitlines()
    if lines and lines[-1].startswith('{"part"'):
        return [Row(**row) for row in json.loads(lines[-1])["rows"]]
    told = [(line[:4] == "pass", *line[6:].partition("  ")[::2]) for line in lines if line[:6] in ("pass  ", "FAIL  ")]
    return [Row(what, "", rest.strip(), passed) for passed, what, rest in told]
