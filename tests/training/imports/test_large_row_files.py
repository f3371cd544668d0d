"""Large files of rows: what checking one costs, and where reading ends."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from training.imports import row_lines
from training.imports.row_files import read_row_file, read_usable_rows
from training.imports.row_lines import read_row_lines

OPTIONS = {"options": ["a", "b"], "answer": "a"}
FORMS: dict[str, Any] = {
    "texts": lambda n: {"prompt": f"{n}", "completion": "t"},
    "labelled": lambda n: {"prompt": f"{n}", **OPTIONS},
    "own": lambda n: {"id": f"{n}", "prompt": f"{n}", "completion": "t"},
}


def lines(form: str, count: int) -> Iterator[str]:
    return (json.dumps(FORMS[form](n)) for n in range(1, count + 1))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", [read_row_file, read_usable_rows])
def test_to_check_many_short_rows_takes_few_times_their_bytes(tmp_path: Path, form: str, reader: Any) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines(form, 20_000)))
    tracemalloc.start()
    try:
        found = reader(path, keep=5)[0]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(found.rows), found.total) == (5, 20_000)
    assert peak < 16 * path.stat().st_size, peak / path.stat().st_size


@pytest.mark.parametrize("form", FORMS)
def test_all_rows_are_kept_unless_few_are_wanted(tmp_path: Path, form: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines(form, 9)))
    found, faults = read_row_file(path)
    assert (len(found.rows), found.total, faults) == (9, 9, [])
    assert read_row_file(path, keep=3)[0].rows == found.rows[:3]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json"])
def test_a_file_with_more_bytes_or_rows_than_are_read_is_refused_and_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    path = tmp_path / f"rows.{ending}"
    made = list(lines("texts", 40))
    text = ("\n".join(made) if ending != "json" else f"[{', '.join(made)}]").encode()
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert read_row_file(path)[0].total == 40
    for name, most, says in (("MOST_ROWS", 39, "39 rows"), ("LARGEST", len(text) - 1, "0 MiB; cut it")):
        with monkeypatch.context() as patched:
            patched.setattr(row_lines, name, most)
            found, [fault] = read_row_file(path, "rows")
        assert found.total == 0 and fault.startswith(("rows: has", "rows: holds")) and says in fault, fault


def test_rows_stand_on_the_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n{"a": 1} \r\n\n  \r{"b": 2}')
    assert dict(read_row_lines(path)[0]) == {2: b'{"a": 1}', 5: b'{"b": 2}'}
    path.write_bytes(b' [ {"a": 1} ,{"a": 1},[1], "\xc3\xa9"]')
    assert dict(read_row_lines(path)[0]) == {1: b'{"a": 1}', 2: b'{"a": 1}', 3: b"[1]", 4: b'"\xc3\xa9"'}
    path.write_bytes(b'[{"a": 1}, x, {"a": 1}]')
    assert list(read_row_lines(path)[0].values()) == [b'{"a": 1}', b"x", b'{"a": 1}']
