"""Files of rows whose first line is broken are still told apart."""

from __future__ import annotations

import json

from training.imports.row_files import read_row_file
from training.models import DatasetKind

ROW = {"id": "1", "prompt": "p", "options": ["a", "b"], "action": "a", "reward": 1.0}
EXPORTED = json.dumps({"prompt": "p", "completion": "a", "reward": 1.0, "metadata": {}, "rows": [ROW]})


def test_an_export_with_a_broken_first_line_names_that_line_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{EXPORTED[:50]}\n\n{EXPORTED}\n")
    found, [fault] = read_row_file(path, "a.jsonl")
    assert found.kind == DatasetKind.LOGGED
    assert fault == "a.jsonl:1: Input data was truncated"


def test_a_file_of_which_no_line_can_be_read_has_a_fault_for_each(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("{\n[\n")
    assert [fault.split(": ")[0] for fault in read_row_file(path, "a.jsonl")[1]] == ["a.jsonl:1", "a.jsonl:2"]
