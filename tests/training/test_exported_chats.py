"""Exported chats are those that were served, and come back as the rows of a dataset; files of chats are learnt turn by
turn."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command

from decisions.queries.export import FORMATS, ExportChoice, ExportReport, export_lines
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tests.training.test_chat_datasets import (
    CALL,
    CALLED,
    FLIGHT,
    FRENCH,
    LOOK,
    PICTURE,
    TUESDAY,
    UNDER,
    WHICH,
    agent_of,
    chat,
    decide,
)
from training.datasets.snapshots import snapshot_ledger
from training.engine.rows.types import Text
from training.imports.checking import check_file
from training.imports.exported import read_export
from training.imports.plan import LABELLED, ImportPlan

ASKED = ("prompt", "system", "messages", "tools", "completion", "reply", "right")


def exported(workspace: Any, format: str = "chat", report: Any = None) -> list[dict[str, Any]]:
    """Oldest first."""
    lines = export_lines(workspace=workspace, chosen=ExportChoice(), format=format, report=report)
    return [json.loads(line) for line in lines][::-1]


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


@pytest.fixture
def told(workspace: Any) -> Any:
    """An agent that chats and calls tools, with decisions of every kind."""
    agent = agent_of(workspace, "tool_calls")
    result = {"role": "tool", "content": "rain", "tool_call_id": "c1"}
    calls = assistant(
        None, tool_calls=[{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    )
    decide(agent, chat(FRENCH, FLIGHT, WHICH, TUESDAY), "Voilà.", "corrected")
    decide(agent, chat(FLIGHT, tools=[LOOK]), [CALL | {"id": "c2"}], completion="I look.", confidence=0.5)
    decide(agent, chat(FLIGHT, calls, result, tools=[LOOK]), [], completion="It rains.")
    decide(agent, chat({"role": "developer", "content": "Be brief."}, TUESDAY), "No.", reasoning="since")
    decide(agent, chat(TUESDAY), "What about it?")
    decide(agent, {"input": "Hi"}, [], completion="Hello.")
    decide(agent, {"input": "Rain?"}, [CALL], completion=None)
    return agent


@pytest.mark.django_db
class TestExports:
    def test_a_chat_is_the_one_that_was_served(self, workspace: Any, told: Any) -> None:
        french, called, rains, brief, alone, template, call = exported(workspace)
        assert french["messages"] == [UNDER, FLIGHT, WHICH, TUESDAY, assistant("Voilà.")]
        assert (french["metadata"]["systemPrompt"], french["metadata"]["chat"]) == (False, True)
        under = {"role": "system", "content": "You book."}
        reply = assistant("I look.", tool_calls=[CALLED | {"id": "c2"}])
        assert called["messages"] == [under, FLIGHT, reply] and called["tools"] == [LOOK]
        assert (called["metadata"]["systemPrompt"], called["metadata"]["confidence"]) == (True, 0.5)
        assert rains["messages"][2]["tool_calls"][0]["function"] == {"name": "look", "arguments": {}}
        assert rains["messages"][3:] == [
            {"role": "tool", "content": "rain", "tool_call_id": "c1"},
            assistant("It rains."),
        ]
        assert brief["messages"][0]["content"] == "You book.\n\nBe brief." and brief["metadata"]["reasoning"] == "since"
        assert alone["messages"] == [under, TUESDAY, assistant("What about it?")] and "tools" not in alone
        assert template["messages"] == [under, user("Hi"), assistant("Hello.")]
        assert call["messages"] == [under, user("Rain?"), assistant('[{"arguments":{"at":"Oslo"},"name":"look"}]')]
        assert (template["metadata"]["chat"], template["metadata"]["state"]) == (True, {"input": "Hi"})

    def test_a_chat_of_one_message_is_exported_whatever_the_template(self, workspace: Any) -> None:
        decide(agent_of(workspace, template="{{ text }}"), chat(TUESDAY), "What about it?")
        report = ExportReport()
        [line] = exported(workspace, "completion", report)
        assert (line["prompt"], line["system"], line["completion"]) == ("Tuesday", "You book.", "What about it?")
        assert report.unusable == 0

    @pytest.mark.parametrize("format", list(FORMATS))
    def test_either_format_is_read_back_as_the_rows_of_a_dataset(
        self, workspace: Any, by: Any, told: Any, store: Path, tmp_path: Path, format: str
    ) -> None:
        calculate_rewards(current_reward_spec(told))
        dataset = snapshot_ledger(by=by, agent=told, name="all", kind="text")
        lines = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        frozen = [json.loads(line) for line in lines]
        found, faults = read_export(written(tmp_path / "rows.jsonl", *exported(workspace, format)))
        assert not faults and not found.refusals and len(found.rows) == len(frozen) == 7
        for row, one in zip(found.rows, frozen, strict=True):
            assert row["id"] == one["id"]
            assert {name: row.get(name) for name in ASKED} == {name: one.get(name) for name in ASKED}
            assert not list(msgspec.convert(row, Text).faults())

    @pytest.mark.parametrize("format", list(FORMATS))
    def test_what_nothing_is_learnt_from_is_exported_and_left_out_when_it_is_read(
        self, workspace: Any, tmp_path: Path, format: str
    ) -> None:
        agent = agent_of(workspace)
        shown = user([{"type": "text", "text": "What is it?"}, PICTURE])
        decide(agent, chat(shown), "A bird.")
        decide(agent, chat(FLIGHT, WHICH, shown), "A bird.")
        decide(agent, chat(FLIGHT, WHICH, TUESDAY), "")
        decide(agent, chat(FLIGHT, WHICH), "Or which month?")
        decide(agent, chat(FLIGHT, WHICH, TUESDAY), "Voilà.")
        decide(agent, chat(FLIGHT, {"role": "critic", "content": "No."}, TUESDAY), "Done.")
        report = ExportReport()
        lines = exported(workspace, format, report)
        assert (report.rows, report.unusable) == (5, 1)
        if format == "chat":
            assert [line["messages"][-2]["content"] for line in lines[:2]] == [shown["content"]] * 2
        found, faults = read_export(written(tmp_path / "rows.jsonl", *lines), "rows.jsonl")
        assert (len(found.rows), faults, found.left_out) == (1, [], 4)
        kept = "; only parts of text can be learnt from"
        assert found.refusals[0] == f"rows.jsonl:1: messages[1].content[1]: is of type 'image_url'{kept}"


FROM_A_PERSON = {"prompt": "t 0", "completion": "travel"}


class TestOtherFiles:
    def read(self, path: Path, *lines: Any) -> list[dict[str, Any]]:
        found, faults = read_export(written(path / "rows.jsonl", *lines), "rows.jsonl")
        assert not faults, faults
        rows = [dict(row) for row in found.rows]
        assert not [fault for row in rows for fault in msgspec.convert(row, Text).faults()]
        return rows

    def test_every_turn_of_the_assistant_s_is_learnt_with_what_was_said_before(self, tmp_path: Path) -> None:
        lines = [{"messages": [user("a"), assistant("b"), user(f"t {n}"), assistant("travel")]} for n in range(2)]
        rows = self.read(tmp_path, *lines)
        assert [row["id"] for row in rows] == ["1/1", "1/2", "2/1", "2/2"]
        assert rows[0] == {"id": "1/1", "prompt": "a", "completion": "b", "group": "1"}
        assert rows[3] == {
            "id": "2/2", "prompt": "User: a\n\nAssistant: b\n\nUser: t 1",
            "messages": [user("a"), assistant("b"), user("t 1")], "completion": "travel", "group": "2",
        }  # fmt: skip

    def test_calls_results_parts_and_empty_answers_are_read(self, tmp_path: Path) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "Oslo"}'}}
        empty, parts, tools, greeting = self.read(
            tmp_path,
            {"messages": [user("Q1"), assistant(None, tool_calls=[]), assistant("A")]},
            {"messages": [user([{"type": "text", "text": "Q"}]), assistant("A")]},
            {"messages": [FRENCH, user("Q"), assistant(None, tool_calls=[call])], "tools": json.dumps([LOOK])},
            {"messages": [assistant("Hello."), user("Q"), assistant("A")], "reward": 2.0},
        )
        assert empty == {"id": "1", "prompt": "Q1", "completion": "A"}
        assert parts == {"id": "2", "prompt": "Q", "completion": "A"}
        assert (tools["messages"], tools["tools"]) == ([FRENCH, user("Q")], [LOOK])
        assert tools["reply"] == assistant("", tool_calls=[CALLED | {"id": "c1"}])
        assert (greeting["id"], greeting["messages"]) == ("4", [assistant("Hello."), user("Q")])
        assert (greeting["reward"], greeting["raw"]) == (1.0, 2.0)

    def test_one_turn_under_a_system_message_is_as_it_was(self, tmp_path: Path) -> None:
        [row, written_out] = self.read(tmp_path, {"messages": [FRENCH, user("Q"), assistant("A")]}, FROM_A_PERSON)
        assert row == {"id": "1", "prompt": "Q", "system": FRENCH["content"], "completion": "A"}
        assert written_out == {"id": "2", **FROM_A_PERSON}

    def test_successive_messages_of_the_assistant_s_are_one_turn(self, tmp_path: Path) -> None:
        [row] = self.read(tmp_path, {"messages": [user("Q"), assistant("A"), assistant("B")]})
        assert row == {"id": "1", "prompt": "Q", "completion": "A\n\nB"}

    def test_a_call_of_a_tool_that_is_not_on_offer_is_refused(self, tmp_path: Path) -> None:
        send = assistant(None, tool_calls=[{"function": {"name": "send", "arguments": "{}"}}])
        line = {"messages": [user("Q"), send], "tools": [LOOK]}
        _, [fault] = read_export(written(tmp_path / "rows.jsonl", line), "rows.jsonl")
        assert fault == "rows.jsonl:1: messages[1].tool_calls: 'send' is not among the tools"

    @pytest.mark.parametrize(
        ("messages", "fault"),
        [
            (
                [user("Q1"), assistant("A1"), user("Q2")],
                "messages: end with the user's; the assistant's reply",
            ),
            ([user("Q1")], "messages: none is the assistant's, so there is nothing to learn"),
            ([], "has neither a prompt with a completion nor messages of user and assistant"),
            ([assistant("Hello.")], "messages: no turn of the assistant's answers anything that is learnt from"),
            ([user("Q"), {"role": "tool", "content": "R"}, assistant("A")], "messages[1].tool_call_id: is missing"),
            ([user([PICTURE]), assistant("A")], "messages[0].content[0]: is of type 'image_url'"),
            ([{"role": "critic", "content": "Q"}, assistant("A")], "messages[0].role: 'critic' must be one of system"),
            ([user(3), assistant("A")], "messages[0].content: must be a text, null, or a list of parts"),
        ],
    )
    def test_what_cannot_be_learnt_is_refused_by_its_line(self, tmp_path: Path, messages: Any, fault: str) -> None:
        good = {"messages": [user("Q"), assistant("A")]}
        _, [told] = read_export(written(tmp_path / "rows.jsonl", good, {"messages": messages}), "rows.jsonl")
        assert told.startswith(f"rows.jsonl:2: {fault}")


@pytest.mark.django_db
def test_the_page_and_the_command_name_the_decisions_that_are_left_out(
    workspace: Any, by: Any, store: Path, tmp_path: Path
) -> None:
    agent = agent_of(workspace)
    decide(agent, chat(user([{"type": "text", "text": "What is it?"}, PICTURE])), "A bird.")
    decide(agent, chat(FLIGHT, WHICH, TUESDAY), "Voilà.")
    file = written(tmp_path / "rows.jsonl", *exported(workspace))
    preview = check_file(by=by, plan=ImportPlan(what=LABELLED, agent="helper", name="chats"), path=file)
    assert (preview.total, preview.kind, preview.refused) == (1, "text", 1)
    assert preview.refusals[0].startswith("rows.jsonl:1: messages[1].content[1]: is of type 'image_url'")
    said, lacks = io.StringIO(), io.StringIO()
    flags = ("--agent", "helper", "--name", "chats", "--json")
    call_command("import_texts", str(file), *flags, stdout=said, stderr=lacks)
    assert json.loads(said.getvalue())["rows"] == 1
    assert lacks.getvalue().startswith(f"left out: {file}:1: messages[1].content[1]: is of type 'image_url'")
