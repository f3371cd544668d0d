"""The table at the head of each seed's tests names tests that are there, and every test of the file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("test_seed_*.py"))
BESIDE = {"the_base_is_the_one_of_the_description"}
"""Tests of what a small base takes the place of."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_statement_has_its_test_and_every_test_its_statement(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    rows = re.findall(r"^\| (.+) \| (.+) \|$", ast.get_docstring(module) or "", re.MULTILINE)[1:]
    named = {name.strip() for _, cell in rows for name in re.split("[,;]", cell) if "/" not in name}
    tests = {
        node.name.removeprefix("test_")
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert len(rows) > 10
    assert (sorted(named - tests), sorted(tests - named - BESIDE)) == ([], [])
    places = {name.strip() for _, cell in rows for name in re.split("[,;]", cell) if "/" in name}
    assert [place for place in places if not (path.parents[2] / place).is_file()] == []


def test_all_five_are_there() -> None:
    assert [path.stem for path in FILES] == [f"test_seed_00{number}" for number in range(5)]
