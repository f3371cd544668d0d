"""A chat on the pages of a decision and of labelling, at every look."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from tests.browser.accessibility import look_at
from tools.chats import make_chat_decision


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
