"""Files that users could not import, or that lost what they held, each with what is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training.imports.answers import read_answers_file
from training.imports.row_files import read_row_file
from training.local.runs import read_rows

USER, HELPER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
FILES: dict[str, tuple[bytes, str, list[dict[str, Any]]]] = {
    "a mark at the beginning": (
        b'\xef\xbb\xbf{"prompt": "Q", "completion": "A"}\n',
        "text",
        [{"id": "1", "prompt": "Q", "completion": "A"}],
    ),
    "TRL's pairs without an id": (
        b'{"prompt": "t 0", "chosen": "travel", "rejected": "health"}\n'
        b'{"prompt": "t 1", "chosen": "travel", "rejected": "health"}\n',
        "preferences",
        [{"id": str(n + 1), "prompt": f"t {n}", "chosen": "travel", "rejected": "health"} for n in range(2)],
    ),
    "TRL's labels of KTO": (
        b'{"prompt": "t 0", "completion": "travel", "label": false}\n'
        b'{"prompt": "t 1", "completion": "travel", "label": true}\n',
        "text",
        [
            {"id": str(n + 1), "prompt": f"t {n}", "completion": "travel", "reward": float(n), "right": float(n)}
            for n in range(2)
        ],
    ),
    "content as parts": (
        b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]},'
        b' {"role": "assistant", "content": "A"}]}\n',
        "text",
        [{"id": "1", "prompt": "Q", "completion": "A"}],
    ),
    "a turn without content": (
        b'{"messages": [{"role": "user", "content": "Q1"},'
        b' {"role": "assistant", "content": null, "tool_calls": []}, {"role": "assistant", "content": "A"}]}\n',
        "text",
        [{"id": "1", "prompt": "Q1", "completion": "A"}],
    ),
    "several turns": (
        json.dumps({"messages": [USER, HELPER, USER, {"role": "assistant", "content": "travel"}]}).encode(),
        "text",
        [
            {"id": "1/1", "group": "1", "prompt": "a", "completion": "b"},
            {
                "id": "1/2",
                "group": "1",
                "prompt": "User: a\n\nAssistant: b\n\nUser: a",
                "messages": [USER, HELPER, USER],
                "completion": "travel",
            },
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_it_is_read_wherever_rows_are_read(name: str, tmp_path: Path) -> None:
    content, kind, rows = FILES[name]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    imported, faults = read_row_file(path)
    assert (imported.kind, imported.rows, faults) == (kind, rows, [])
    trained = read_rows(path)
    assert (trained.kind, trained.lines) == (kind, rows)
    known, faults = read_answers_file(path)
    if kind == "preferences":
        assert faults == [f"{path}: holds preference pairs, which say what is better and not what is right"]
    else:
        right = [row["id"] for row in rows if row.get("right", 1.0)]
        assert faults == [] and [row["id"] for row in known.rows] == right


def test_a_chat_that_ends_with_the_user_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"messages": [USER, HELPER, USER]}))
    _, [fault] = read_row_file(path, "rows.jsonl")
    assert fault == "rows.jsonl:1: chat: messages: end with the user's; the assistant's reply to it is missing"
