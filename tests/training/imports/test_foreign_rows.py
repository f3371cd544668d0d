"""Each form of rows that people have becomes rows of ours, or is refused by what it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from training.engine.rows.types import Preference, Text
from training.imports.row_files import read_row_file, read_usable_rows
from training.models import DatasetKind
from training.rows.trl_formats import FORMATS

USER, HELPER = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
CALL = {"id": "call_1_0", "type": "function", "function": {"name": "look", "arguments": {"at": "Oslo"}}}
CHAT = [USER, HELPER, {"role": "user", "content": "Q2"}, {"role": "assistant", "content": "A2"}]
TEXT = {"prompt": "Q", "completion": "A"}
PAIR = {"prompt": "Q", "chosen": "A", "rejected": "B"}
DIALOGUE = "\n\nHuman: Q\n\nAssistant: A\n\nHuman: Q2\n\nAssistant:"
TURNS = {
    "prompt": "User: Q\n\nAssistant: A\n\nUser: Q2",
    "messages": CHAT[:3],
}


def said(speaker: str, value: Any) -> dict[str, Any]:
    return {"from": speaker, "value": value}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def read(tmp_path: Path, *lines: Any) -> tuple[DatasetKind, list[Any], list[str]]:
    found, faults = read_row_file(write(tmp_path / "a.jsonl", *lines), "a.jsonl")
    return found.kind, found.rows, faults


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        pytest.param(TEXT, [TEXT], id="prompt and completion"),
        pytest.param(TEXT | {"id": "x"}, [TEXT | {"id": "x"}], id="a row of ours"),
        pytest.param({"prompt": [USER], "completion": [HELPER]}, [TEXT], id="conversational"),
        pytest.param(
            {"prompt": CHAT[:3], "completion": [{"role": "assistant", "content": "A2"}]},
            [TURNS | {"completion": "A2"}],
            id="conversational, of several turns",
        ),
        pytest.param(
            {"prompt": "Q", "completion": "A", "label": False}, [TEXT | {"reward": 0.0, "right": 0.0}], id="kto"
        ),
        pytest.param(
            {"prompt": [USER], "completion": [HELPER], "label": 1},
            [TEXT | {"reward": 1.0, "right": 1.0}],
            id="kto chat",
        ),
        pytest.param({"messages": [USER, HELPER]}, [TEXT], id="messages"),
        pytest.param(
            {"messages": CHAT},
            [TEXT | {"id": "1/1", "group": "1"}, TURNS | {"completion": "A2", "id": "1/2", "group": "1"}],
            id="messages of several turns",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]}, HELPER]}, [TEXT], id="parts"
        ),
        pytest.param(
            {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": []}, HELPER]}, [TEXT], id="null"
        ),
        pytest.param(
            {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}], "tools": [TOOL]},
            [
                {
                    "prompt": "User: Q",
                    "messages": [USER],
                    "tools": [TOOL],
                    "completion": '[{"arguments":{"at":"Oslo"},"name":"look"}]',
                    "reply": {"role": "assistant", "content": "", "tool_calls": [CALL]},
                }
            ],
            id="tool calls",
        ),
        pytest.param({"conversations": [said("human", "Q"), said("gpt", "A")]}, [TEXT], id="sharegpt"),
        pytest.param(
            {"conversations": [said("human", "Q"), said("gpt", "A")], "system": "Be kind."},
            [TEXT | {"system": "Be kind."}],
            id="sharegpt with a system prompt",
        ),
        pytest.param(
            {
                "conversations": [
                    said("human", "Q"),
                    said("function_call", '{"name": "look", "arguments": {"at": "Oslo"}}'),
                    said("observation", "Rain"),
                    said("gpt", "A"),
                ],
                "tools": json.dumps([TOOL["function"]]),
            },
            [
                {
                    "prompt": "User: Q",
                    "messages": [USER],
                    "tools": [TOOL],
                    "completion": '[{"arguments":{"at":"Oslo"},"name":"look"}]',
                    "reply": {"role": "assistant", "content": "", "tool_calls": [CALL]},
                    "id": "1/1",
                    "group": "1",
                },
                {
                    "prompt": 'User: Q\n\nAssistant: [{"arguments":{"at":"Oslo"},"name":"look"}]\n\nTool: Rain',
                    "messages": [
                        USER,
                        {"role": "assistant", "content": "", "tool_calls": [CALL]},
                        {"role": "tool", "content": "Rain", "tool_call_id": "call_1_0"},
                    ],
                    "tools": [TOOL],
                    "completion": "A",
                    "id": "1/2",
                    "group": "1",
                },
            ],
            id="sharegpt with calls",
        ),
        pytest.param(
            {"conversations": [said("human", "Q"), said("gpt", "A")], "kto_tag": True},
            [TEXT | {"reward": 1.0, "right": 1.0}],
            id="sharegpt with a label",
        ),
        pytest.param({"instruction": "Q", "input": "", "output": "A"}, [TEXT], id="alpaca"),
        pytest.param(
            {"instruction": "Add.", "input": "1 2", "output": "3", "system": "S"},
            [{"prompt": "Add.\n\n1 2", "completion": "3", "system": "S"}],
            id="alpaca with input",
        ),
        pytest.param(
            {"instruction": "Q2", "output": "A2", "history": [["Q", "A"]]},
            [TEXT | {"id": "1/1", "group": "1"}, TURNS | {"completion": "A2", "id": "1/2", "group": "1"}],
            id="alpaca with a history",
        ),
        pytest.param(
            {"instruction": "Q", "context": "C", "response": "A", "category": "open_qa"},
            [{"prompt": "Q\n\nC", "completion": "A"}],
            id="dolly",
        ),
        pytest.param({"question": "Q", "answer": "A"}, [TEXT], id="question and answer"),
    ],
)
def test_a_form_of_texts_becomes_rows_of_texts(tmp_path: Path, line: Any, rows: list[Any]) -> None:
    kind, found, faults = read(tmp_path, line)
    assert (kind, faults) == (DatasetKind.TEXT, [])
    assert found == [{"id": "1"} | row for row in rows]
    assert not [fault for row in found for fault in msgspec.convert(row, Text).faults()]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        pytest.param(PAIR, PAIR, id="plain"),
        pytest.param(PAIR | {"id": "x"}, PAIR | {"id": "x"}, id="a row of ours"),
        pytest.param(
            {
                "prompt": [{"role": "system", "content": "S"}, USER],
                "chosen": [HELPER],
                "rejected": [HELPER | {"content": "B"}],
            },
            PAIR | {"system": "S"},
            id="conversational",
        ),
        pytest.param({"chosen": [USER, HELPER], "rejected": [USER, HELPER | {"content": "B"}]}, PAIR, id="no prompt"),
        pytest.param(
            {"prompt": "Q", "chosen": [USER, HELPER], "rejected": [USER, HELPER | {"content": "B"}], "score_chosen": 8},
            PAIR,
            id="the prompt twice",
        ),
        pytest.param(
            {"chosen": f"{DIALOGUE} A2", "rejected": f"{DIALOGUE} B2"},
            TURNS | {"chosen": "A2", "rejected": "B2"},
            id="hh-rlhf",
        ),
        pytest.param(
            {"prompt": DIALOGUE, "chosen": "A2", "rejected": "B2"},
            TURNS | {"chosen": "A2", "rejected": "B2"},
            id="hh-rlhf with its prompt apart",
        ),
        pytest.param(
            {
                "input": {"messages": [USER], "tools": [], "parallel_tool_calls": True},
                "preferred_output": [HELPER],
                "non_preferred_output": [HELPER | {"content": "B"}],
            },
            PAIR,
            id="openai",
        ),
        pytest.param({"instruction": "Q", "input": "", "chosen": "A", "rejected": "B"}, PAIR, id="alpaca"),
        pytest.param(
            {"system": "S", "question": "Q", "chosen": "A", "rejected": "B"}, PAIR | {"system": "S"}, id="orca"
        ),
        pytest.param(
            {"conversations": [said("human", "Q")], "chosen": said("gpt", "A"), "rejected": said("gpt", "B")},
            PAIR,
            id="sharegpt",
        ),
        pytest.param(
            {"prompt": "Q", "chosen": [HELPER | {"content": None, "tool_calls": [CALL]}], "rejected": "B"},
            {
                "prompt": "User: Q",
                "messages": [USER],
                "chosen": '[{"arguments":{"at":"Oslo"},"name":"look"}]',
                "rejected": "B",
                "chosen_reply": {"role": "assistant", "content": "", "tool_calls": [CALL]},
            },
            id="a call against words",
        ),
    ],
)
def test_a_form_of_pairs_becomes_preference_pairs(tmp_path: Path, line: Any, row: Any) -> None:
    kind, [found], faults = read(tmp_path, line)
    assert (kind, faults) == (DatasetKind.PREFERENCES, [])
    assert found == {"id": "1"} | row
    assert not [*msgspec.convert(found, Preference).faults()]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"prompt": "Q"}, "prompt and completion: completion is missing"),
        ({"prompt": "Q", "chosen": "A"}, "preference pair: rejected is missing"),
        (
            {"chosen": "A", "rejected": "B"},
            "preference pair: prompt is missing: chosen and rejected are texts that do not name it",
        ),
        (PAIR | {"rejected": "A"}, "preference pair: rejected: is the same as the chosen text"),
        (
            {"chosen": CHAT, "rejected": [USER, HELPER | {"content": "B"}]},
            "preference pair: chosen: must end with one reply of the assistant's to the same messages as the other",
        ),
        (
            {"messages": CHAT[:3]},
            "chat: messages: end with the user's; the assistant's reply to it is missing",
        ),
        (
            {"conversations": [said("human", "Q"), said("narrator", "A")]},
            "ShareGPT: conversations[1].from: 'narrator' must be one of human, user, gpt, assistant, bot, model, "
            "chatgpt, bing, bard, system, observation, tool, function, function_response, tool_response, "
            "function_call, tool_call",
        ),
        (
            {"conversations": [said("human", 7)]},
            "ShareGPT: conversations[0].content: must be a text, null, or a list of parts",
        ),
        ({"conversations": []}, "ShareGPT: messages: none is the assistant's, so there is nothing to learn"),
        ({"instruction": "Q", "input": ""}, "Alpaca: output is missing"),
        ({"prompt": "Q", "completion": "A", "label": "good"}, "KTO: label: 'good' must be true or false"),
        (
            {"prompt": [USER], "completion": 7},
            "prompt and completion: completion: must be a text, or a list of messages",
        ),
        *(
            (
                {"prompt": [USER, HELPER], "completion": said_by_it} | more,
                f"{form}: completion: holds no reply of the assistant's to the prompt, or the prompt ends with one",
            )
            for said_by_it in ([], "B")
            for form, more in (("KTO", {"label": True}), ("prompt and completion", {"reward": 1}))
        ),
        (
            {"prompt": [USER, HELPER], "completion": "B"},
            "prompt and completion: completion: holds no reply of the assistant's to the prompt, or the prompt ends "
            "with one",
        ),
        ({"instruction": "Q", "output": "A", "history": 7}, "Alpaca: history: is not a list"),
        ({"id": "x", "prompt": "Q", "completion": "A", "reward": 7}, "reward: 7.0 must be from 0 to 1"),
        ({"text": "Q A"}, "a text without a prompt: give prompt and completion"),
        ({"state": {}, "action": "a"}, "a decision: import_decisions reads it, in the format jsonl"),
        (
            {"prompt": "Q", "completions": ["a"], "labels": [True]},
            "TRL's stepwise supervision, which no method learns from",
        ),
        (
            {"foo": 1, "bar": 2},
            "is of no known form: it has foo, bar; the forms are preference pair, OpenAI's preference, chat, "
            "ShareGPT, KTO, prompt and completion, Alpaca",
        ),
    ],
)
def test_a_line_is_refused_by_what_it_is_or_lacks(tmp_path: Path, line: Any, reason: str) -> None:
    assert read(tmp_path, line)[2] == [f"a.jsonl:1: {reason}"]


def test_lines_of_several_forms_go_together_where_their_kind_is_the_same(tmp_path: Path) -> None:
    kind, rows, faults = read(tmp_path, {"messages": [USER, HELPER]}, {"instruction": "Q", "output": "A"})
    assert (kind, [row["id"] for row in rows], faults) == (DatasetKind.TEXT, ["1", "2"], [])
    _, rows, [fault] = read(tmp_path, {"messages": [USER, HELPER]}, PAIR)
    assert fault == "a.jsonl:2: makes rows of preferences, but the rows before it are of text"


@pytest.mark.parametrize("line", [TEXT, PAIR, {"conversations": [said("human", "Q"), said("gpt", "A")]}])
def test_one_bad_character_is_replaced_and_the_other_rows_are_as_they_were(tmp_path: Path, line: Any) -> None:
    bad = json.dumps(line).replace('"Q"', r'"Q\ud83d \\ud83d \ud83d\ude00 \u0000"')
    _, rows, faults = read(tmp_path, line, bad, line)
    assert faults == [] and [row["prompt"] for row in rows] == ["Q", "Q\ufffd \\ud83d 😀 \ufffd", "Q"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"prompt": "Q", "completion": "A", "label": NaN}', "JSON is malformed"),
        (
            '{"prompt": "Q", "completion": "A", "label": 99999999999999999999}',
            "label: 99999999999999999999 must be true",
        ),
        ('{"prompt": ' + "[" * 5000 + "]" * 5000 + "}", ""),
        ("7", "is not a JSON object"),
    ],
)
def test_one_bad_row_is_told_alone(tmp_path: Path, bad: str, reason: str) -> None:
    good = {"prompt": "Q", "completion": "A", "label": True}
    _, rows, [fault] = read(tmp_path, good, bad, good)
    assert fault.startswith("a.jsonl:2: ") and reason in fault and len(rows) == 2


@pytest.mark.parametrize("line", [TEXT, PAIR, {"messages": [USER, HELPER]}, TEXT | {"metadata": {}}])
def test_every_form_may_be_packed_in_another_encoding_or_a_list(tmp_path: Path, line: Any) -> None:
    lines = f"{json.dumps(line)}\n{json.dumps(line)}\n"
    whole = json.dumps([line, line], indent=1)
    for name, content in {
        "a.jsonl": lines.encode("utf-8-sig"),
        "b.jsonl": lines.encode("utf-16"),
        "c.jsonl.gz": gzip.compress(lines.encode()),
        "d.json": whole.encode(),
        "e.json.gz": gzip.compress(whole.encode("utf-8-sig")),
    }.items():
        (tmp_path / name).write_bytes(content)
        found, faults = read_row_file(tmp_path / name)
        assert faults == [] and [row["id"] for row in found.rows] == ["1", "2"], name
    (tmp_path / "f.json").write_text(json.dumps(line, indent=1))
    assert len(read_row_file(tmp_path / "f.json")[0].rows) == 1


def test_a_damaged_packed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"no gzip")
    [fault] = read_row_file(tmp_path / "a.jsonl.gz", "a.jsonl.gz")[1]
    assert fault.startswith("a.jsonl.gz: is not a gzip file")


def test_labelled_rows_without_an_id_are_numbered_by_their_line(tmp_path: Path) -> None:
    row = {"prompt": "a graph", "options": ["graphs", "web"], "answer": "graphs"}
    kind, rows, faults = read(tmp_path, row, "", row | {"source": "label", "completion": "graphs"})
    assert (kind, [row["id"] for row in rows], faults) == (DatasetKind.LABELLED, ["1", "3"], [])


SYSTEM_TEXT = {"id": "a", "prompt": "Q", "completion": "A", "system": "S", "reward": 1.0, "right": 1.0}
OTHER_TEXT = SYSTEM_TEXT | {"id": "b", "completion": "B", "reward": 0.0, "right": 0.0}
LABELLED = {"id": "a", "prompt": "Q", "options": ["A", "B"], "answer": "A", "source": "label"}
LOGGED = {"id": "a", "prompt": "Q", "options": ["A", "B"], "action": "A", "propensity": 0.5, "reward": 1.0}


@pytest.mark.parametrize(
    ("rows", "format", "kind"),
    [
        ([LABELLED], "rows", DatasetKind.LABELLED),
        ([LOGGED], "rows", DatasetKind.LOGGED),
        ([SYSTEM_TEXT, OTHER_TEXT], "rows", DatasetKind.TEXT),
        ([PAIR | {"id": "a"}], "rows", DatasetKind.PREFERENCES),
        ([SYSTEM_TEXT, OTHER_TEXT], "completion", DatasetKind.TEXT),
        ([SYSTEM_TEXT, OTHER_TEXT], "chat", DatasetKind.TEXT),
        ([SYSTEM_TEXT, OTHER_TEXT | {"right": 1.0}], "messages", DatasetKind.TEXT),
        ([SYSTEM_TEXT, OTHER_TEXT], "kto", DatasetKind.TEXT),
        ([PAIR | {"id": "a"}], "chat", DatasetKind.PREFERENCES),
        ([PAIR | {"id": "a"}], "preference", DatasetKind.PREFERENCES),
    ],
)
def test_what_export_dataset_writes_can_be_imported_again(
    tmp_path: Path, rows: list[Any], format: str, kind: DatasetKind
) -> None:
    written = rows if format == "rows" else list(FORMATS[format](lambda: iter(rows)))
    found, back, faults = read(tmp_path, *written)
    assert (found, faults) == (kind, [])
    kept = ("id", "prompt", "system", "completion", "chosen", "rejected", "answer", "action", "options")
    if format in ("rows", "kto", "chat"):
        kept = (*kept, "reward")
    told = sorted(back, key=lambda row: row["id"])
    assert [{k: v for k, v in row.items() if k in kept} for row in told] == [
        {k: v for k, v in row.items() if k in kept} for row in rows
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"id": "a", "prompt": "Q"}, "prompt and completion: completion is missing"),
        ({"id": "a", "prompt": "Q", "texts": ["A"], "rewards": [1.0]}, "a group of texts: give each text a line"),
        ({"id": "1", "environment": "equations", "facts": {}, "text": "x"}, "a task of an environment"),
    ],
)
def test_what_export_dataset_writes_for_other_programs_alone_is_refused_by_name(
    tmp_path: Path, line: Any, reason: str
) -> None:
    assert reason in read(tmp_path, line)[2][0]


@pytest.mark.parametrize(
    ("content", "kept", "left_out", "faults"),
    [
        ("{a}\n{a}\n", ["1", "2"], 0, 0),
        ("{a}\n{\n\n7\n{a}\n", ["1", "5"], 2, 0),
        ("[{a},\n {b},\n {a}]", ["1", "3"], 1, 0),
        ('[{a}, {"prompt": NaN}, tru, {a}]', ["1", "4"], 2, 0),
        ("{\n{\n", [], 0, 2),
        ("", [], 0, 1),
    ],
)
def test_lines_with_faults_can_be_left_out(
    tmp_path: Path, content: str, kept: list[str], left_out: int, faults: int
) -> None:
    (tmp_path / "a.json").write_text(
        content.replace("{a}", json.dumps(PAIR)).replace("{b}", json.dumps(PAIR | {"rejected": "A"}))
    )
    found, others, whole = read_usable_rows(tmp_path / "a.json", "a.json")
    assert (len(others), len(whole)) == (left_out, faults)
    if not faults:
        assert [row["id"] for row in found.rows] == kept
