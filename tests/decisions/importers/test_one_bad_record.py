"""One bad record of a file is refused alone, in whichever shape it comes, and its neighbours are imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decisions.models import Decision
from tests.decisions.ingest.test_one_bad_item import BAD

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "jsonl", "--policy", "rules", "--create-agents", "--observed-at", "2024-06-20T00:00:00Z")


def decision(number: int) -> dict[str, Any]:
    return {"agent": "sorter", "state": {"text": f"t{number}"}, "options": ["a", "b"], "action": "a", "reasoning": "r"}


@pytest.mark.parametrize("shape", ["lines", "list", "pretty"])
def test_bad_records_are_refused_alone(importing: Any, tmp_path: Path, shape: str) -> None:
    indent = 1 if shape == "pretty" else None
    bad = [json.dumps(decision(0) | {"reasoning": "HERE"}, indent=indent) for _ in BAD]
    bad = [text.replace('"HERE"', value) for text, (value, _) in zip(bad, BAD.values(), strict=True)]
    good = [json.dumps(decision(number), indent=indent) for number in (1, 2)]
    records = [good[0], *bad, good[1]]
    text = "\n".join(records) if shape == "lines" else "[" + ",\n".join(records) + "]"
    path = tmp_path / "decisions.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    done = importing(path, *FLAGS)
    assert (done.report["decisions"], done.report["refused"]) == (2, len(BAD)), done.report
    assert Decision.objects.filter(state__text__in=["t1", "t2"]).count() == 2


def test_bad_cells_of_a_table_are_refused_alone(importing: Any, tmp_path: Path) -> None:
    head = "agent,state.text,options,action,propensity,observed_at\n"
    row = 'sorter,{},"[""a"", ""b""]",a,{},2025-11-02T10:00:0{}Z\n'
    cells = [("x", "0.5"), ("cut \0", "0.5"), ("x", "NaN"), ("x", "inf"), ("x", "1e999"), ("y", "0.5")]
    path = tmp_path / "table.csv"
    rows = [row.format(*cell, number) for number, cell in enumerate(cells)]
    rows.insert(1, rows[0].replace("x", "\udcff").replace(":00Z", ":09Z"))
    path.write_bytes((head + "".join(rows)).encode(errors="surrogateescape"))
    done = importing(path, "--format", "csv", "--policy", "rules", "--create-agents")
    assert (done.report["decisions"], done.report["refused"]) == (2, 5), done.report
