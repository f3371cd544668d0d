"""Writing small files and importing them through the command, as a person would."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.models import Decision, Episode, Feedback, Step


@dataclass(frozen=True)
class Done:
    """How a call of the command ended."""

    code: int
    report: dict[str, Any]
    errors: str


def counts() -> dict[str, int]:
    """Rows of everything that an import writes."""
    return {model.__name__: model.objects.count() for model in (Decision, Episode, Step, Feedback)}


@pytest.fixture
def importing(workspace: Any) -> Callable[..., Done]:
    """`importing(path, "--format", "jsonl", …)`."""

    def run(path: Path, *flags: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        code = 0
        try:
            call_command("import_decisions", str(path), *flags, "--json", stdout=out, stderr=err)
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, json.loads(out.getvalue()), err.getvalue())

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """`lines(row, …, name="rows.jsonl")`: a file of JSON lines; a row that is text stands as it is."""

    def write(*rows: Any, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return write
