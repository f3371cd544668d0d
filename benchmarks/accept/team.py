"""`make accept PART=team`: people, plain words, buttons for the whole loop, and pages that fit.

    python -m benchmarks.accept.team [--only NAME …] [--quick]

`people`, `loop` and `words` run the tests that show it; `pages` measures every page in a browser, and `looks` goes
through all browser tests at every width, light and dark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import shown_rows
from tools.instance import ROOT
from tools.report import Report, log

BEFORE = "0c644c3"
"""The commit that words and pages are compared with."""
WORDS = ("README.md", "CONTRIBUTING.md", "docs")
PEOPLE: Mapping[str, Sequence[str]] = {
    "three people of three roles, from the invitation to a promoted version": [
        "tests/browser/test_a_day_in_browser.py"
    ],
    "invitations, roles, deactivation, password links, workspaces": ["tests/workspaces/people/test_people.py"],
    "two-factor authentication and sessions": ["tests/workspaces/people/test_two_factor.py"],
    "OpenID Connect against a provider process": ["tests/workspaces/people/test_openid_connect.py"],
    "the audit, its filters and CSV": ["tests/workspaces/audit"],
    "every endpoint and every page by role": [
        "tests/architecture/test_api_matrix.py",
        "tests/architecture/test_page_matrix.py",
    ],
    "the table of ASVS 5.0": ["tests/docs/test_security.py"],
}
LOOP: Mapping[str, Sequence[str]] = {
    "rewards, datasets, runs, experiments and downloads by buttons": [
        "tests/training/test_first_run.py",
        "tests/project/test_rewards_page.py",
        "tests/training/test_dataset_pages.py",
        "tests/training/test_train_new.py",
        "tests/project/registry/test_export_download.py",
    ],
    "agents: pages and API": ["tests/decisions/pages/test_agent_pages.py", "tests/decisions/agents/test_revising.py"],
    "imports: pages and API": ["tests/training/imports"],
    "the overview": ["tests/project/home", "tests/project/test_overview_page.py"],
}
TEXTS: Mapping[str, Sequence[str]] = {
    "every text with its place, and none of the phrases named": ["tests/docs/test_ui_texts.py"],
    "the glossary is the tooltips and docs/vocabulary.md": ["tests/docs/test_vocabulary.py"],
}


def people(report: Report, quick: bool) -> None:
    shown_rows(report, PEOPLE)


def loop(report: Report, quick: bool) -> None:
    shown_rows(report, LOOP)


def words(report: Report, quick: bool) -> None:
    shown_rows(report, TEXTS)
    before, after = count_words(BEFORE), count_words("HEAD")
    share = after / before
    report.add(
        "words of README and docs",
        bound="<= 0.67",
        figure=f"{share:.2f} ({before:,} -> {after:,})",
        passed=share <= 0.67,
    )


def count_words(commit: str) -> int:
    """As `wc -w` counts them, without what is generated: docs/api and the list of texts."""
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit, "--", *WORDS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split() if name.endswith(".md") and not name.startswith("docs/api/")]
    total = 0
    for name in names:
        shown = subprocess.run(
            ["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        total += len(shown.stdout.split())
    return total


def pages(report: Report, quick: bool) -> None:
    command = [sys.executable, "-m", "benchmarks.pages", *(["--quick"] if quick else [])]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line[:4] in ("pass", "FAIL")]
    for line in lines:
        what, bound, figure = (part.strip() for part in (line[6:72], line[72:95], line[95:]))
        report.add(what, bound=bound, figure=figure, passed=line.startswith("pass"))
    if not lines:
        log(ran.stderr[-2000:])
        report.add("benchmarks.pages", bound="exit 0", figure=ran.returncode, passed=False)


def looks(report: Report, quick: bool) -> None:
    """axe, widths and the keyboard on every page: wide and narrow, light and dark."""
    environment = os.environ | {"RECKONER_SCREENSHOTS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/browser"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    closing = (ran.stdout.strip().splitlines() or [""])[-1]
    passed = ran.returncode == 0 and re.search(r"\bskipped\b", closing) is None
    report.add("all browser tests at all looks", bound="all pass, none skipped", figure=closing, passed=passed)
    if not passed:
        log(ran.stdout[-3000:])


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "people": people,
    "loop": loop,
    "words": words,
    "pages": pages,
    "looks": looks,
}

if __name__ == "__main__":
    sys.exit(run_parts("team", PARTS, description=__doc__, quick="every sixth page"))
