"""The page on which the API can be tried out, under the content security policy: a blocked style is a complaint."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect


def test_the_operations_are_shown_with_their_examples(db: None, tab: Any) -> None:
    tab.goto("/api/v1/docs")
    operation = tab.locator("#operations-agents-decide")
    expect(operation).to_be_visible()
    operation.get_by_role("button").first.click()
    expect(operation.get_by_text("Flights to Oslo on 3 May").first).to_be_visible()
    expect(operation.get_by_role("textbox", name="Idempotency-Key")).to_have_value("note-17-filed")
    assert tab.evaluate("getComputedStyle(document.body).marginTop") == "0px"
