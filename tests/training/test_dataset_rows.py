"""The rows of a dataset on its page: a few at a time, chats as turns, and files of all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from tools.factories import DatasetItemFactory, DatasetSnapshotFactory, DecisionFactory, put_rows
from tools.factories.models_registry import ArtifactFactory
from training.datasets import shown_rows
from training.datasets.other_formats import formats_of, stream_rows
from training.rows.parts import Tally

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "Oslo"}}}
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {}}}
CHAT: dict[str, Any] = {
    "prompt": "as text",
    "messages": [
        {"role": "system", "content": "You book trips."},
        {"role": "user", "content": "Is there <b>rain</b> in Oslo?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "It hails.", "tool_call_id": "c1"},
        {"role": "user", "content": "And tomorrow?"},
    ],
    "tools": [LOOK],
    "completion": "[…]",
    "reply": {"role": "assistant", "content": "I look again.", "tool_calls": [CALL]},
    "reward": 0.75,
}


def dataset_of(agent: Any, rows: list[dict[str, Any]], **fields: Any) -> Any:
    artifact = ArtifactFactory(workspace=agent.workspace, kind="dataset", digest=put_rows(rows).digest)
    return DatasetSnapshotFactory(agent=agent, artifact=artifact, rows=len(rows), **fields)


def at(name: str, dataset: Any) -> str:
    return reverse(f"pages:{name}", args=[dataset.workspace.slug, dataset.pk])


def test_a_chat_is_shown_as_turns_with_its_calls_and_a_link_to_its_decision(
    agent: Any, viewer: Any, page_client: Any, store: Any
) -> None:
    decision = DecisionFactory(agent=agent)
    dataset = dataset_of(agent, [CHAT | {"id": str(decision.id)}, CHAT | {"id": "elsewhere"}], kind="text")
    DatasetItemFactory(dataset=dataset, decision=decision)
    answer = page_client(viewer).get(at("dataset", dataset))
    first, second = answer.context["page"].rows
    assert [turn.role for turn in first.question.turns] == ["system", "user", "assistant", "user"]
    (call,) = first.question.turns[2].calls
    assert (call.name, call.results[0][0].text) == ("look", "It hails.")
    assert first.answers[0].said.turns[0].calls[0].name == "look" and first.asks == "And tomorrow?"
    assert (first.decision, second.decision) == (decision.id, None)
    text = answer.content.decode()
    assert "&lt;b&gt;rain" in text and "I look again." in text and "1 tool on offer" in text and "0.75" in text
    assert reverse("pages:decision", args=[agent.workspace.slug, decision.id]) in text


WRITTEN = {"prompt": "Is it so?", "source": "label"}
CALLED = {"completion": '[{"name":"look"}]', "reply": {"role": "assistant", "content": "", "tool_calls": [CALL]}}


@pytest.mark.parametrize(
    ("row", "line", "said", "calls"),
    [
        (CHAT | {"completion": "It rains.", "reply": None, "source": "label"}, "It rains.", "It rains.", []),
        (CHAT | CALLED, '[{"name":"look"}]', "", ["look"]),
        (WRITTEN | {"completion": "It is so."}, "It is so.", "It is so.", []),
        (WRITTEN | {"options": ["a", "b"], "answer": "b", "completion": "b"}, "b", "b", []),
        (WRITTEN | {"options": ["a", "b"], "answer": "a"}, "a", "a", []),
    ],
    ids=["a text of a chat", "tool calls", "a text without a chat", "an option", "an imported option"],
)
def test_right_answers_of_labelled_rows_are_shown_whatever_the_agent_answers(
    row: dict[str, Any],
    line: str,
    said: str,
    calls: list[str],
    agent: Any,
    viewer: Any,
    page_client: Any,
    store: Any,
) -> None:
    dataset = dataset_of(agent, [row | {"id": "1"}], kind="labelled")
    (shown,) = page_client(viewer).get(at("dataset", dataset)).context["page"].rows
    (answer,) = shown.answers
    (turn,) = answer.said.turns
    assert (answer.title, shown.answers_in_short) == ("Right answer", line)
    assert ("".join(piece.text for piece in turn.speech), [call.name for call in turn.calls]) == (said, calls)


@pytest.mark.parametrize(
    ("kind", "row", "shown"),
    [
        ("labelled", {"options": ["yes", "no"], "answer": "no", "system": "Be brief."}, ["Right answer", "Be brief."]),
        ("logged", {"options": ["yes", "no"], "action": "yes", "propensity": 0.25}, ["Action", "25.0%"]),
        ("preferences", {"chosen": "Good.", "rejected": "Bad.", "synthetic": True}, ["Good.", "Bad.", "Worse"]),
        ("text", {"completion": "Said."}, ["Answer", "Said."]),
    ],
)
def test_rows_of_every_kind_are_shown(
    kind: str, row: dict[str, Any], shown: list[str], agent: Any, viewer: Any, page_client: Any, store: Any
) -> None:
    spec = {"reward_spec": current_reward_spec(agent)} if kind == "logged" else {}
    dataset = dataset_of(agent, [{"id": "1", "prompt": "Is it so?", **row}], kind=kind, **spec)
    text = page_client(viewer).get(at("dataset", dataset)).content.decode()
    assert [words for words in ["Is it so?", *shown] if words not in text] == []


def test_pages_follow_each_other_to_the_last_row_by_as_many_queries(
    agent: Any,
    viewer: Any,
    page_client: Any,
    store: Any,
    django_assert_max_num_queries: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shown_rows, "LONGEST", 300)
    rows = [{"id": str(n), "prompt": "é" * (400 if n == 7 else n), "completion": f"answer {n}"} for n in range(23)]
    dataset = dataset_of(agent, rows, kind="text")
    client, path, seen, query = page_client(viewer), at("dataset", dataset), [], ""
    for _ in range(3):
        with django_assert_max_num_queries(9):
            page = client.get(path + query).context["page"]
        seen += [row.id for row in page.rows]
        query = f"?at={page.following}"
    assert seen == [str(n) if n != 7 else "" for n in range(23)] and page.following is None
    assert client.get(f"{path}?at=0").status_code == 200
    for nowhere in ("1", "-1", "x", "999999", "9" * 30):
        assert client.get(f"{path}?at={nowhere}").status_code == 400
    (artifact_path(dataset.artifact.digest) / "rows.jsonl").unlink()
    assert "files are no longer here" in client.get(path).content.decode()


def test_all_rows_are_downloaded_as_the_api_gives_them(
    agent: Any, viewer: Any, page_client: Any, api: Any, store: Any
) -> None:
    dataset = dataset_of(agent, [CHAT | {"id": "a"}, CHAT | {"id": "b"}], kind="text", statistics={"groups": 0})
    client, offered = page_client(viewer), ["rows", "prompt", "completion", "chat", "messages", "kto", "ppo"]
    assert client.get(at("dataset", dataset)).context["formats"] == offered
    for query in ("", "?format=messages&file=json", "?format=chat"):
        sent = client.get(at("dataset-rows", dataset) + query)
        stream = api("export:read").get(f"datasets/{dataset.pk}/rows{query}")
        assert b"".join(sent.streaming_content) == b"".join(stream.streaming_content)
        assert sent["Content-Disposition"] == stream["Content-Disposition"]
    assert json.loads(b"".join(client.get(at("dataset-rows", dataset)).streaming_content).splitlines()[1])["id"] == "b"
    refused = client.get(at("dataset-rows", dataset) + "?format=preference")
    assert refused.status_code == 400 and "only preference pairs" in refused.content.decode()


def test_only_formats_that_the_rows_hold_enough_for_are_offered(agent: Any, store: Any) -> None:
    def of(kind: str, **fields: Any) -> set[str]:
        return set(formats_of(DatasetSnapshotFactory.build(agent=agent, kind=kind, **fields)))

    every = {"rows", "prompt", "completion", "chat"}
    assert of("labelled") == every | {"messages"}
    assert of("preferences") == every | {"preference", "kto"}
    assert of("logged", statistics={"without_propensity": 1}) == every | {"messages", "kto", "groups"}
    assert of("text", statistics={"least_right": 1, "most_right": 1}) == every | {"messages", "groups", "ppo"}
    assert of("tasks") == {"rows"}


SO, NOT = {"id": "1", "prompt": "Is it so?"}, {"id": "2", "prompt": "Is it so?"}
RATED = [SO | {"completion": "Yes.", "reward": 1.0}, NOT | {"completion": "No.", "reward": 0.0}]
CHOSEN = {"options": ["yes", "no"], "action": "yes", "reward": 1.0}


@pytest.mark.parametrize(
    ("kind", "rows", "offered"),
    [
        ("text", RATED, {"messages", "kto", "groups"}),
        ("text", [row | {"log_p": -2.0} for row in RATED], {"messages", "kto", "groups", "ppo"}),
        ("text", [SO | {"completion": "Yes."}, NOT | {"completion": "No."}], {"messages"}),
        ("text", [SO | {"completion": "Yes.", "source": "label"}], {"messages"}),
        (
            "text",
            [SO | {"completion": "Yes.", "right": 1.0}, NOT | {"completion": "No.", "right": 0.0}],
            {"messages", "kto"},
        ),
        ("logged", [SO | CHOSEN | {"propensity": 0.5}], {"messages", "ppo"}),
        ("logged", [SO | CHOSEN | {"propensity": None}, NOT | CHOSEN | {"propensity": None}], {"messages"}),
        ("labelled", [SO | {"completion": "Yes.", "source": "label"}], {"messages"}),
        ("labelled", [SO | {"options": ["yes", "no"], "answer": "yes"}], {"messages"}),
        ("preferences", [SO | {"chosen": "Yes.", "rejected": "No.", "source": "label"}], {"preference", "kto"}),
    ],
)
def test_a_format_that_is_offered_is_not_refused(
    kind: str, rows: list[dict[str, Any]], offered: set[str], agent: Any, store: Any
) -> None:
    tally = Tally()
    for row in rows:
        tally.add(row)
    spec = {"reward_spec": current_reward_spec(agent)} if kind == "logged" else {}
    dataset = dataset_of(agent, rows, kind=kind, statistics=tally.as_plain(), **spec)
    formats = set(formats_of(dataset))
    assert all(list(stream_rows(dataset, format)) for format in formats)
    assert formats == {"rows", "prompt", "completion", "chat"} | offered
