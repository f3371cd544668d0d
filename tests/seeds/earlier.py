"""Command lines of the earlier systems, run as they are written: docs/earlier-systems.md says by which command of ours.

A line's program is looked up on that page, and all that follows it is passed on as it stands.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.core.management import call_command

from tests.docs.blocks import DOCS

T = TypeVar("T")


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns, in a thread of its own: a browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class Ran(NamedTuple):
    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@cache
def programs() -> dict[str, str]:
    """`python evaluate.py` → `evaluate`, from all tables of the page."""
    page = (DOCS / "earlier-systems.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(python \S+\.py)` \| `manage\.py ([\w ]+)`", page, re.MULTILINE)
    assert len(rows) > 8
    return dict(rows)


def run(line: str, *more: object) -> Ran:
    """What the line prints and returns. `more` comes after its words: what a test adds, such as a small base."""
    first, second, *rest = shlex.split(line.replace("\\\n", " "))
    name, *before = programs()[f"{first} {second}"].split()
    return run_ours(name, *before, *rest, *more)


def run_ours(name: str, *arguments: object) -> Ran:
    output, errors = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(name, *map(str, arguments), stdout=output, stderr=errors)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Ran(code, output.getvalue(), errors.getvalue())
