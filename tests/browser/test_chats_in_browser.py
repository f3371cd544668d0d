"""A chat on the pages of a decision and of labelling, and its agent's pages, at every look."""

from __future__ import annotations

import copy
from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from tests.browser.accessibility import look_at
from tools.chats import CHAT_STATE, make_chat_decision
from tools.factories import AliasFactory, DecisionFactory, ModelVersionFactory


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


def test_an_agent_that_chats_on_its_pages(tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    agent = make_chat_decision(workspace).agent
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    found = []
    for name, of in (("connect", []), ("agent", [agent.slug])):
        log_in(tab, admin).goto(reverse(f"pages:{name}", args=[workspace.slug, *of]))
        found += look_at(tab, f"chatting-{name}", by_keyboard=False)
    assert found == []
