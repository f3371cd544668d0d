"""A chat on the pages of a decision and of labelling, and its agent's pages, at every look."""

from __future__ import annotations

import copy
from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from tests.browser.accessibility import look_at
from tools.chats import CHAT_STATE, make_chat_decision
from tools.factories import (
    AliasFactory,
    ArtifactFactory,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    ModelVersionFactory,
    put_rows,
)


def test_a_chat_reads_as_a_chat_at_every_look(tab: Any, labeller: Any, workspace: Any, log_in: Any) -> None:
    decision = make_chat_decision(workspace)
    found = []
    for name, of in (("decision", [decision.pk]), ("label", []), ("decisions", [])):
        log_in(tab, labeller).goto(reverse(f"pages:{name}", args=[workspace.slug, *of]))
        if name != "decisions":
            tab.get_by_text("2 tools on offer").click()
            expect(tab.locator(".offered .call")).to_have_count(2)
        found += look_at(tab, f"chat-{name}")
    assert found == []


def test_a_long_chat_is_folded_and_its_long_texts_scroll(tab: Any, labeller: Any, workspace: Any, log_in: Any) -> None:
    decision = make_chat_decision(workspace)
    state = copy.deepcopy(CHAT_STATE) | {"customer": {"since": 2019}}
    small_talk = [{"role": role, "content": f"{role} says {n}"} for n in range(20) for role in ("user", "assistant")]
    state["messages"] = [
        *small_talk,
        *state["messages"],
        {"role": "user", "content": "x" * 400 + " word" * 400},
        {"role": "tool", "tool_call_id": "call_" + "0" * 60, "content": "of a call that is not here"},
    ]
    long = DecisionFactory(agent=decision.agent, agent_version=decision.agent_version, state=state, action="Yes.")
    log_in(tab, labeller).goto(reverse("pages:decision", args=[workspace.slug, long.pk]))
    expect(tab.get_by_text("assistant says 1", exact=True)).to_be_hidden()
    tab.get_by_text("26 earlier messages").click()
    expect(tab.get_by_text("assistant says 1", exact=True)).to_be_visible()
    assert look_at(tab, "chat-long") == []


def test_rows_of_a_dataset_read_as_chats_at_every_look(
    tab: Any, viewer: Any, workspace: Any, log_in: Any, store: Any
) -> None:
    decision = make_chat_decision(workspace)
    call = {"id": "c1", "type": "function", "function": {"name": "find_trains", "arguments": {"to": "Oslo"}}}
    messages = [
        {"role": "system", "content": "You help with trips."},
        {"role": "user", "content": "Which trains go to Oslo?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"trains": [{"number": 14, "leaves": "09:14"}]}'},
        {"role": "user", "content": "Book the first."},
    ]
    reply = {"role": "assistant", "content": "I book it.", "tool_calls": [call]}
    row = {
        "prompt": "as text",
        "messages": messages,
        "tools": CHAT_STATE["tools"],
        "completion": "I book it.",
        "reply": reply,
        "reward": 0.75,
    }
    artifact = ArtifactFactory(
        workspace=workspace, kind="dataset", digest=put_rows([{"id": str(decision.pk), **row}] * 12).digest
    )
    dataset = DatasetSnapshotFactory(agent=decision.agent, artifact=artifact, rows=12, kind="text", name="chats")
    DatasetItemFactory(dataset=dataset, decision=decision)
    log_in(tab, viewer).goto(reverse("pages:dataset", args=[workspace.slug, dataset.pk]))
    expect(tab.get_by_text("I book it.").first).to_be_visible()
    found = look_at(tab, "dataset-rows")
    tab.get_by_role("link", name="Next rows").click()
    expect(tab.locator(".data-rows > li")).to_have_count(2)
    with tab.expect_download() as download:
        tab.get_by_role("combobox", name="Rows").select_option("messages")
        tab.get_by_role("button", name="Download rows").click()
    assert download.value.suggested_filename == f"{dataset.pk}-messages.jsonl"
    assert found == []


def test_an_agent_that_chats_is_connected_step_by_step(tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    agent = make_chat_decision(workspace).agent
    found = []
    log_in(tab, admin).goto(reverse("pages:agent-edit", args=[workspace.slug, agent.slug]))
    expect(tab.get_by_role("heading", name="Sampling")).to_be_visible()
    found += look_at(tab, "chatting-agent-edit", by_keyboard=False)
    for name, of in (("connect", []), ("agent", [agent.slug])):
        tab.goto(reverse(f"pages:{name}", args=[workspace.slug, *of]))
        expect(tab.get_by_role("link", name="Add a backend")).to_be_visible()
        found += look_at(tab, f"first-answers-{name}", by_keyboard=False)
    assert found == []


def test_an_agent_that_chats_on_its_pages(tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    agent = make_chat_decision(workspace).agent
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    found = []
    for name, of in (("connect", []), ("agent", [agent.slug])):
        log_in(tab, admin).goto(reverse(f"pages:{name}", args=[workspace.slug, *of]))
        found += look_at(tab, f"chatting-{name}", by_keyboard=False)
    assert found == []
