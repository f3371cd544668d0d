"""Datasets of agents that chat: a row is the chat that it was, with its tools and the assistant's message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    FeedbackFactory,
    LabelFactory,
    RewardSpecFactory,
)
from training.datasets.label_preview import preview_labels
from training.datasets.of_labels import snapshot_labels
from training.datasets.preview import preview_datasets, show_examples
from training.datasets.snapshots import snapshot_ledger
from training.engine.rows.types import Preference, Text, groups_of_prompts
from training.models import DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.negatives import Negatives
from training.rows.splitting import text_of

pytestmark = pytest.mark.django_db
FRENCH = {"role": "system", "content": "Answer only in French."}
FLIGHT = {"role": "user", "content": "Book me a flight"}
WHICH = {"role": "assistant", "content": "Which day?"}
TUESDAY = {"role": "user", "content": "Tuesday"}
UNDER = {"role": "system", "content": "You book.\n\nAnswer only in French."}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
CALL = {"name": "look", "arguments": {"at": "Oslo"}}
CALLED = {"type": "function", "function": CALL}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"input": messages[-1]["content"], "messages": list(messages), **fields}


def agent_of(workspace: Any, space: str = "text", template: str = "{{ input }}") -> Any:
    agent = AgentFactory(workspace=workspace, slug="helper", kind="CUSTOM")
    version = {"prompt_template": template, "system_prompt": "You book.", "options": None}
    AgentVersionFactory(agent=agent, action_space=space, **version)
    RewardSpecFactory(agent=agent, signal="verdict")
    return agent


def decide(agent: Any, state: dict[str, Any], action: Any, verdict: str | None = "confirmed", **fields: Any) -> Any:
    decision = DecisionFactory(
        agent=agent, state=state, action=action, **{"options": None, "propensity": None} | fields
    )
    if verdict is not None:
        FeedbackFactory(decision=decision, value=verdict)
    return decision


def rows_of(dataset: DatasetSnapshot, kind: Any) -> list[dict[str, Any]]:
    """As they were written; each is one that the engine takes."""
    lines = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]

    assert not [fault for row in rows for fault in msgspec.convert(row, kind).faults()]
    return rows


def texts_of(by: Any, agent: Any) -> dict[str, dict[str, Any]]:
    calculate_rewards(current_reward_spec(agent))
    dataset = snapshot_ledger(by=by, agent=agent, name="chats", kind="text")
    return {row["id"]: row for row in rows_of(dataset, Text)}


class TestTexts:
    def test_a_chat_is_learnt_with_its_context_under_the_version_s_system_prompt(
        self, workspace: Any, by: Any, store: Path
    ) -> None:
        agent = agent_of(workspace)
        told = decide(agent, chat(FRENCH, FLIGHT, WHICH, TUESDAY), "Voilà.")
        other = decide(agent, chat({"role": "user", "content": "Book a table"}, WHICH, TUESDAY), "Done.")
        alone = decide(agent, chat(TUESDAY), "What about it?")
        rows = texts_of(by, agent)
        row = rows[str(told.id)]
        assert row["messages"] == [UNDER, FLIGHT, WHICH, TUESDAY]
        assert (row["completion"], row["reward"], "reply" in row, "system" in row, "tools" in row) == (
            "Voilà.", 1.0, False, False, False,
        )  # fmt: skip
        assert row["prompt"].endswith("User: Book me a flight\n\nAssistant: Which day?\n\nUser: Tuesday")
        assert rows[str(other.id)]["messages"] != row["messages"]
        one = rows[str(alone.id)]
        assert (one["prompt"], one["system"], one["completion"]) == ("Tuesday", "You book.", "What about it?")
        assert "messages" not in one

    @pytest.mark.parametrize("template", ["{{ text }}", "Answer {{ input }} in one word."])
    def test_a_chat_of_one_message_is_learnt_as_it_was_served_whatever_the_template(
        self, workspace: Any, by: Any, store: Path, template: str
    ) -> None:
        agent = agent_of(workspace, template=template)
        told = decide(agent, chat(TUESDAY), "What about it?")
        row = texts_of(by, agent)[str(told.id)]
        assert (row["prompt"], row["system"], row["completion"]) == ("Tuesday", "You book.", "What about it?")

    def test_calls_are_calls_and_words_are_words(self, workspace: Any, by: Any, store: Path) -> None:
        agent = agent_of(workspace, "tool_calls")
        asked = chat(FLIGHT, tools=[LOOK], tool_choice="auto")
        called = decide(agent, asked, [CALL | {"id": "c1"}], options=["look"])
        beside = decide(agent, asked, [CALL], completion="I look.", options=["look"])
        words = decide(agent, asked, [], completion="It rains.", options=["look"])
        text = decide(agent, asked, "It snows.", options=["look"])
        ours = decide(agent, asked, [CALL], completion=json.dumps([CALL]), options=["look"])
        single = decide(agent, {"input": "Hi"}, [], completion="Hello.")
        imported = decide(agent, asked, [{"name": "respond", "arguments": {"content": "It hails."}}])
        rows = texts_of(by, agent)
        row = rows[str(called.id)]
        assert row["tools"] == [LOOK] and row["messages"] == [{"role": "system", "content": "You book."}, FLIGHT]
        assert row["reply"] == {"role": "assistant", "content": "", "tool_calls": [CALLED | {"id": "c1"}]}
        assert row["completion"] == '[{"arguments":{"at":"Oslo"},"name":"look"}]'
        row = rows[str(beside.id)]
        assert row["reply"] == {"role": "assistant", "content": "I look.", "tool_calls": [CALLED]}
        assert row["completion"] == 'I look.\n[{"arguments":{"at":"Oslo"},"name":"look"}]'
        assert rows[str(ours.id)]["reply"]["content"] == ""
        for decision, said in ((words, "It rains."), (text, "It snows."), (single, "Hello."), (imported, "It hails.")):
            assert rows[str(decision.id)]["completion"] == said and "reply" not in rows[str(decision.id)]

    def test_what_a_model_cannot_learn_from_is_left_out_and_named(self, workspace: Any, by: Any, store: Path) -> None:
        agent = agent_of(workspace)
        shown = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]}
        told = decide(agent, chat(FLIGHT, WHICH, TUESDAY), "Voilà.")
        decide(agent, chat(shown), "A bird.")
        decide(agent, chat(FLIGHT, WHICH, shown), "A bird.")
        decide(agent, chat(FLIGHT, WHICH, {"role": "user", "content": "What is it?\n[image_url]"}), "A bird.")
        decide(agent, chat(FLIGHT, WHICH), "Or which month?")
        decide(agent, chat(FLIGHT, WHICH, TUESDAY), "")
        decide(agent, chat(FLIGHT, tools=[LOOK]), [{"name": "look", "arguments": {}, "unread": "{"}])
        decide(agent, chat(FLIGHT, {"role": "critic", "content": "No."}, TUESDAY), "Done.")
        calculate_rewards(current_reward_spec(agent))
        dataset = snapshot_ledger(by=by, agent=agent, name="chats", kind="text")
        assert [row["id"] for row in rows_of(dataset, Text)] == [str(told.id)]
        assert dataset.statistics["left_out"] == {"media": 3, "chat": 1, "action": 1, "call": 1, "prompt": 1}
        labels = snapshot_labels(by=by, agent=agent, name="labels", question=LabelQuestion("labelled"))
        assert labels.rows == 1 and labels.statistics["left_out"] == dataset.statistics["left_out"]

    def test_a_preview_shows_words_and_the_whole_chat(self, workspace: Any, by: Any) -> None:
        agent = agent_of(workspace, "tool_calls")
        decision = decide(agent, chat(FLIGHT, WHICH, TUESDAY), [], completion="Voilà.")
        calculate_rewards(current_reward_spec(agent))
        preview = preview_datasets([agent], kind="text")[agent.id]
        assert preview.actions == (("Voilà.", 1),)
        [example] = show_examples([decision.id], {})
        assert (example.action, example.system) == ("Voilà.", "")
        assert example.prompt == "System: You book.\n\nUser: Book me a flight\n\nAssistant: Which day?\n\nUser: Tuesday"
        labels = preview_labels(agent, LabelQuestion("labelled"))
        assert (labels.actions, labels.answers) == ((("Voilà.", 1),), ("Voilà.",))

    def test_a_preview_counts_decisions_without_a_field_of_the_prompt(
        self, workspace: Any, by: Any, store: Path
    ) -> None:
        agent = agent_of(workspace, template="{{ text }} {{ item.title }} {{ note? }} {{ options }}")
        whole = {"text": "Rain?", "item": {"title": "t"}}
        for state in (whole, {"text": "Rain?", "item": {}}, {"text": "Rain?"}, chat(TUESDAY), chat(TUESDAY, text="Q")):
            decide(agent, state, "No.")
        calculate_rewards(current_reward_spec(agent))
        preview = preview_datasets([agent], kind="text")[agent.id]
        dataset = snapshot_ledger(by=by, agent=agent, name="chats", kind="text")
        assert (preview.rows, dict(preview.left_out)) == (dataset.rows, dataset.statistics["left_out"])
        assert (preview.rows, preview.counts("prompt")) == (2, 3)
        labels = preview_labels(agent, LabelQuestion("labelled"))
        assert (labels.rows, labels.counts("prompt")) == (2, 3)


class TestLabels:
    def test_a_confirmed_answer_and_a_correction_are_the_assistant_s_messages(
        self, workspace: Any, by: Any, store: Path
    ) -> None:
        agent = agent_of(workspace, "tool_calls")
        asked = chat(FLIGHT, tools=[LOOK])
        confirmed = decide(agent, asked, [], completion="It rains.")
        right = decide(agent, asked, [CALL], verdict=None, completion="I look.")
        LabelFactory(decision=right)
        corrected = decide(agent, asked, [], verdict=None, completion="It rains.")
        LabelFactory(decision=corrected, verdict="corrected", corrected_action=[CALL])
        said = decide(agent, asked, [CALL], verdict=None)
        LabelFactory(decision=said, verdict="corrected", corrected_action="Where?")
        same = decide(agent, asked, [], verdict=None, completion="It rains.")
        LabelFactory(decision=same, verdict="corrected", corrected_action="It rains.")
        labels = snapshot_labels(by=by, agent=agent, name="labels", question=LabelQuestion("labelled"))
        rows = {row["id"]: row for row in rows_of(labels, Text)}
        reply = {"role": "assistant", "content": "", "tool_calls": [CALLED]}
        assert all(row["tools"] == [LOOK] and row["messages"][1:] == [FLIGHT] for row in rows.values())
        assert rows[str(confirmed.id)]["completion"] == rows[str(same.id)]["completion"] == "It rains."
        assert rows[str(right.id)]["reply"] == reply | {"content": "I look."}
        assert rows[str(corrected.id)]["reply"] == reply
        assert rows[str(said.id)]["completion"] == "Where?" and "reply" not in rows[str(said.id)]
        pairs = snapshot_labels(by=by, agent=agent, name="pairs", question=LabelQuestion("preferences"))
        by_id = {row["id"]: row for row in rows_of(pairs, Preference)}
        assert by_id.keys() == {str(corrected.id), str(said.id)}
        pair = by_id[str(corrected.id)]
        assert (pair["chosen_reply"], pair["rejected"], "rejected_reply" in pair) == (reply, "It rains.", False)
        assert (by_id[str(said.id)]["chosen"], by_id[str(said.id)]["rejected_reply"]) == ("Where?", reply)
        assert pair["tools"] == [LOOK] and pairs.statistics["left_out"] == {"confirmed": 3}


class TestWhatBelongsTogether:
    def test_chats_with_an_equal_last_line_are_groups_of_their_own(self, workspace: Any, by: Any, store: Path) -> None:
        agent = agent_of(workspace)
        for number in range(14):
            place = f"a flight to the {number}th town of {number * 7} on my long list"
            for verdict in ("confirmed", "corrected"):
                decide(agent, chat({"role": "user", "content": place}, WHICH, TUESDAY), "Ok.", verdict)
        calculate_rewards(current_reward_spec(agent))
        dataset = snapshot_ledger(by=by, agent=agent, name="chats", kind="text")
        assert dataset.statistics["groups"] == 14

        assert len(groups_of_prompts(msgspec.convert(rows_of(dataset, Text), list[Text]))) == 14

    def test_nearly_the_same_text_is_that_of_the_whole_chat_alone(self) -> None:
        said = chat(FRENCH, FLIGHT, WHICH, TUESDAY, tools=[LOOK], response_format={"type": "text"})
        assert text_of(said) == "Book me a flight Which day? Tuesday"
        parts = {"role": "user", "content": [{"type": "text", "text": "Tuesday"}]}
        assert text_of(said | {"messages": [FRENCH, FLIGHT, WHICH, parts]}) == text_of(said)
        called = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
        assert "Oslo" in text_of(chat(FLIGHT, called, TUESDAY))
        assert text_of(chat(FRENCH)) == "Answer only in French."  # all that there is
        assert text_of({"messages": [FLIGHT], "input": "Tuesday", "note": "n"}) == "Tuesday n Book me a flight"
        assert text_of({"messages": [{"role": "critic", "content": "No."}]}) == "No. critic"

    def test_a_made_up_negative_has_the_chat_and_another_chat_s_answer(self) -> None:
        def row(name: str, *messages: dict[str, Any], **answer: Any) -> dict[str, Any]:
            return {"id": name, "prompt": name, "messages": list(messages), "tools": [LOOK], "reward": 1.0, **answer}

        negatives = Negatives()
        reply = {"role": "assistant", "content": "", "tool_calls": [CALLED]}
        assert negatives.make(row("1", FLIGHT, WHICH, TUESDAY, completion="[…]", reply=reply)) is None
        same = row("1", FLIGHT, WHICH, TUESDAY, completion="Voilà.")
        assert negatives.make(same) is None  # another right answer to the same chat
        made = negatives.make(row("2", FRENCH, FLIGHT, WHICH, TUESDAY, completion="Voilà."))
        assert made is not None
        assert (made["completion"], made["reply"], made["reward"]) == ("[…]", reply, 0.0)
        assert (made["messages"], made["tools"]) == ([FRENCH, FLIGHT, WHICH, TUESDAY], [LOOK])
