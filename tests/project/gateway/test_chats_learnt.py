"""What a client said through the gateway, and what people said of the answers, is what a model learns from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decisions.agents.revising import revise_agent
from decisions.labelling.labels import record_verdict
from decisions.models import Decision
from decisions.queries.export import ExportChoice, export_lines
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tools.factories import RewardSpecFactory
from training.datasets.of_labels import snapshot_labels
from training.datasets.snapshots import snapshot_ledger
from training.engine.rows.types import Preference, Text
from training.imports.exported import read_export
from training.rows.labels import LabelQuestion

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
FRENCH = {"role": "system", "content": "Answer only in French."}
WHICH = {"role": "assistant", "content": "Which day?"}
TUESDAY = {"role": "user", "content": "Tuesday"}
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "", "parameters": SCHEMA}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def rows_of(dataset: Any, kind: Any) -> list[dict[str, Any]]:
    lines = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert not [fault for row in rows for fault in msgspec.convert(row, kind).faults()]
    return rows


def test_a_chat_of_several_turns_that_was_confirmed_is_learnt_whole(
    client: Any, by: Any, helper: Any, store: Path, tmp_path: Path
) -> None:
    agent, _, server = helper
    revise_agent(by=by, agent=agent, expected=1, changes={"system_prompt": "You book."})
    RewardSpecFactory(agent=agent, signal="verdict")
    for first in ("Book me a flight", "Book me a table"):
        client.chat.completions.create(model="helper", messages=[FRENCH, user(first), WHICH, TUESDAY])
    for decision in Decision.objects.all():
        record_verdict(by=by, decision=decision, verdict="confirmed")
    calculate_rewards(current_reward_spec(agent))
    flight, table = rows_of(snapshot_ledger(by=by, agent=agent, name="chats", kind="text"), Text)
    under = {"role": "system", "content": "You book.\n\nAnswer only in French."}
    assert flight["messages"] == server.asked[0]["messages"] == [under, user("Book me a flight"), WHICH, TUESDAY]
    assert table["messages"] == server.asked[1]["messages"] != flight["messages"]
    assert (flight["completion"], flight["reward"], flight["right"]) == (server.pick, 1.0, 1.0)
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"".join(export_lines(workspace=by.workspace, chosen=ExportChoice(), format="chat")))
    found, faults = read_export(file)
    assert not faults and [row["messages"] for row in found.rows] == [table["messages"], flight["messages"]]


def test_calls_words_and_a_correction_of_an_agent_with_tools_are_learnt_as_they_are(
    client: Any, by: Any, chatting: Any, deploy: Any, serve: Any, store: Path
) -> None:
    server, agent = serve(), chatting("planner", "tool_calls")
    deploy(agent, "gpt", server.url)
    server.message = {"content": None, "tool_calls": [CALL]}
    asked = [user("Does it rain in Oslo?")]
    client.chat.completions.create(model="planner", messages=asked, tools=[WEATHER])
    server.message = {"content": "It rains."}
    asked += [{"role": "assistant", "content": None, "tool_calls": [CALL]}]
    asked += [{"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
    client.chat.completions.create(model="planner", messages=asked, tools=[WEATHER])
    called, said = Decision.objects.order_by("id")
    record_verdict(by=by, decision=called, verdict="confirmed")
    record_verdict(by=by, decision=said, verdict="corrected", correction=[{"name": "weather", "arguments": {}}])
    first, second = rows_of(
        snapshot_labels(by=by, agent=agent, name="labels", question=LabelQuestion("labelled")), Text
    )
    [reply] = first["reply"]["tool_calls"]
    assert reply["function"] == {"name": "weather", "arguments": {"place": "Oslo"}}
    assert first["tools"] == second["tools"] == [WEATHER] and first["messages"] == asked[:1]
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"place": "Oslo"}
    pairs = snapshot_labels(by=by, agent=agent, name="pairs", question=LabelQuestion("preferences"))
    [pair] = rows_of(pairs, Preference)
    assert (pair["rejected"], pair["chosen_reply"]["tool_calls"][0]["function"]["arguments"]) == ("It rains.", {})
