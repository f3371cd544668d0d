"""What the documentation names is there: files, functions in them, modules, tests, what the clock asks for."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

from jobs.registry import list_kinds
from project.celery import app
from tests.docs.blocks import DOCS, PAGES, ROOT, code_words

FLOORS = ("project", "training", "decisions", "models_registry", "jobs", "workspaces", "sandbox")
PROGRAMS = ("tests", "benchmarks", "tools")
# `decisions/gateway/decide.py`, `decisions/gateway/decide.py::decide`, `templates/decisions/`, `docs/adr/*.md`
PLACE = re.compile(r"^((?:[\w.*-]+/)+(?:[\w.*-]+\.(?:py|md|html|css|js|toml|yml|yaml|sh|ts))?)(?:::(\w+))?$")
DOTTED = re.compile(rf"^((?:{'|'.join((*FLOORS, *PROGRAMS))})(?:\.\w+)+)(?:\(.*\))?$")
OURS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "var"))}


@cache
def defined(path: Path) -> set[str]:
    """Functions, classes and constants of a module, methods included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@cache
def missing_place(word: str) -> str | None:
    """Why this place is not there; None when it is, or when the word is no place of the repository."""
    named = PLACE.match(word)
    if named is None or word.partition("/")[0] not in OURS:
        return None
    path, name = named.groups()
    if not any(ROOT.glob(path.rstrip("/"))):
        return f"{word}: no such file"
    if name and name not in defined(ROOT / path):
        return f"{word}: no such name in it"
    return None


@cache
def missing_name(word: str) -> str | None:
    """Why this dotted name leads nowhere; None when it does, or when the word is none of ours."""
    named = DOTTED.match(word)
    if named is None or named[1] in list_kinds() or named[1] in app.tasks or re.search(r"\.(?:py|md|html)$", named[1]):
        return None
    parts = named[1].split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return f"{word}: {'.'.join(parts[:end])} has no {part}"
            found = getattr(found, part)
        return None
    return f"{word}: no such module"


def test_files_and_names_in_backticks_are_there() -> None:
    faults = [
        f"{page.relative_to(ROOT)}: {why}"
        for page in PAGES
        for word in code_words(page)
        for why in (missing_place(word), missing_name(word))
        if why
    ]
    assert not faults, "\n".join(faults)


def test_it_would_notice() -> None:
    assert missing_place("decisions/gateway/decide.py::decide") is None
    assert missing_place("decisions/no_such_file.py") is not None
    assert missing_place("decisions/gateway/decide.py::no_such_function") is not None
    assert missing_place("no-such-folder-of-ours/file.py") is None  # somebody else's
    assert missing_name("training.engine.spec.run_spec") is None
    assert missing_name("decisions.gateway.decide.decide(by=…)") is None
    assert missing_name("decisions.gateway.decide.no_such_function") is not None
    assert missing_name("training.no_such_module") is not None
    found = [word for page in PAGES for word in code_words(page) if PLACE.match(word)]
    assert len(found) > 100


def test_every_kind_of_job_that_the_clock_asks_for_is_documented() -> None:
    """The table of what happens by itself has one row for each entry of beat's schedule."""
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    table = text.partition("## What happens by itself")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| when")]
    assert len(rows) == len(app.conf.beat_schedule)
