"""The page on which the API can be tried out, under the content security policy: a blocked style is a complaint."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.accessibility import axe_findings


def test_the_operations_are_shown_with_their_examples(db: None, tab: Any) -> None:
    tab.goto("/api/v1/docs")
    operation = tab.locator("#operations-agents-decide")
    expect(operation).to_be_visible()
    operation.get_by_role("button").first.click()
    expect(operation.get_by_text("Flights to Oslo on 3 May").first).to_be_visible()
    expect(operation.get_by_role("textbox", name="Idempotency-Key")).to_have_value("note-17-filed")
    assert tab.locator(".opblock-summary-path").first.inner_text().replace("\u200b", "").startswith("/api/v1/")
    surface = "getComputedStyle(document.querySelector('.opblock')).backgroundColor"
    light = tab.evaluate(surface)
    tab.emulate_media(color_scheme="dark")
    assert (light, tab.evaluate(surface)) == ("rgb(255, 255, 255)", "rgb(22, 23, 26)")
    contrast = {"type": "rule", "values": ["color-contrast"]}
    assert axe_findings(tab, contrast) == []
    tab.emulate_media(color_scheme="light")
    assert axe_findings(tab, contrast) == []
