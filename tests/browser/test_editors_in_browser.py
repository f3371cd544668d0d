"""Corrections of every kind of action in a real browser: by keys alone, by pointer, and what does not fit.

A choice is corrected in test_decisions_in_browser.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from decisions.models import Label
from tests.browser.accessibility import look_at
from tools.actions import TO_CORRECT, make_decision_to_correct

Opened = Callable[[str, str], Any]


def correction() -> Any:
    label = Label.objects.get()
    return label.verdict, label.corrected_action


@pytest.fixture
def opened(tab: Any, labeller: Any, workspace: Any, log_in: Any) -> Opened:
    """`opened(kind, name)`: a page with a decision of the kind, and the form of its correction, opened by x."""

    def show(kind: str, name: str) -> Any:
        decision = make_decision_to_correct(workspace, kind)
        of = [decision.pk] if name == "decision" else []
        log_in(tab, labeller).goto(reverse(f"pages:{name}", args=[workspace.slug, *of]))
        tab.keyboard.press("x")
        expect(tab.get_by_role("button", name="Save correction")).to_be_visible()
        return tab

    return show


def forgive(complaints: list[str]) -> None:
    """A correction that is refused is a 400, and Chromium says so."""
    complaints[:] = [line for line in complaints if "400" not in line]


def test_a_ranking_is_put_in_order_by_arrow_keys_and_by_pointer(opened: Opened) -> None:
    tab = opened("ranking", "label")
    rows = tab.locator("[data-sort-row]")
    expect(rows).to_contain_text(["milk", "tea", "bread"])
    expect(tab.get_by_role("button", name="Move up: milk")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(rows).to_contain_text(["tea", "milk", "bread"])
    expect(tab.get_by_role("button", name="Move up: milk")).to_be_focused()
    assert look_at(tab, "label-ranking") == []
    tab.locator("[data-drag]").nth(2).hover()
    tab.mouse.down()
    tab.mouse.move(*(tab.locator("[data-drag]").first.bounding_box()[part] for part in ("x", "y")), steps=3)
    tab.mouse.up()
    expect(rows).to_contain_text(["bread", "tea", "milk"])
    tab.get_by_role("button", name="Move down: bread").press("Control+Enter")
    expect(tab.get_by_role("heading", name="No decisions left to label")).to_be_visible()
    assert correction() == ("corrected", ["bread", "tea", "milk"])
    tab.keyboard.press("u")
    expect(tab.locator("[data-progress]")).to_contain_text("0 labelled by you today")
    assert not Label.objects.exists()


def test_a_structured_action_is_corrected_in_its_form(opened: Opened, complaints: list[str]) -> None:
    tab = opened("structured", "decision")
    tab.get_by_label("status").select_option(label="DONE")
    tab.get_by_label("green").check()
    tab.get_by_label("share").fill("2")
    tab.keyboard.press("Enter")
    alert = tab.get_by_role("alert")
    expect(alert).to_contain_text("The correction was not saved.")
    expect(alert).to_be_focused()
    expect(tab.get_by_label("share")).to_have_attribute("aria-invalid", "true")
    assert look_at(tab, "decision-structured") == [] and not Label.objects.exists()
    tab.get_by_label("share").fill("0.25")
    tab.keyboard.press("Enter")
    expect(tab.locator("#label-panel")).to_contain_text("Corrected to")
    action = TO_CORRECT["structured"][1]["action"]
    changed = {"status": "DONE", "share": 0.25, "colours": ["blue", "green"]}
    assert correction() == ("corrected", action | changed)
    forgive(complaints)


def test_findings_are_rejected_edited_and_added(opened: Opened) -> None:
    tab = opened("findings", "label")
    tab.keyboard.press("Space")  # rejects the first
    tab.get_by_role("group", name="RELATED 2").get_by_label("d1: Trains to Oslo").check()
    tab.get_by_role("button", name="Add a finding").press("Enter")
    fresh = tab.get_by_role("group", name="New finding")
    expect(fresh.get_by_label("type")).to_be_focused()
    fresh.get_by_label("type").select_option(label="SUGGESTION")
    fresh.get_by_label("description").fill("Book early.")
    assert look_at(tab, "label-findings", by_keyboard=False) == []
    tab.get_by_role("button", name="Save correction").last.press("Enter")
    expect(tab.get_by_role("heading", name="No decisions left to label")).to_be_visible()
    verdict, action = correction()
    found = [{"type": "RELATED", "relatedIds": ["d2", "d1"]}, {"type": "SUGGESTION", "description": "Book early."}]
    assert (verdict, action) == ("corrected", {"findings": found})


def test_a_text_shows_its_changes_before_it_is_saved_and_afterwards(opened: Opened) -> None:
    tab = opened("text", "decision")
    tab.get_by_label("Right text").fill("We will call you on Friday.\nKind regards")
    expect(tab.locator("[data-diff] ins")).to_have_text("Friday")
    expect(tab.locator("[data-diff] del")).to_have_text("Monday")
    assert not Label.objects.exists()
    tab.keyboard.press("Control+Enter")
    expect(tab.locator("#label-panel .part ins")).to_have_text("Friday")
    assert look_at(tab, "decision-text", by_keyboard=False) == []
    assert correction() == ("corrected", "We will call you on Friday.\nKind regards")


def test_tool_calls_are_edited_removed_and_added(opened: Opened, complaints: list[str]) -> None:
    tab = opened("tool_calls", "label")
    tab.get_by_role("button", name="Remove: search 1").press("Enter")
    expect(tab.locator("[data-sort-row]")).to_have_count(1)
    tab.get_by_role("group", name="open 2").get_by_label("arguments").fill("{")
    tab.keyboard.press("Control+Enter")
    expect(tab.get_by_role("group", name="open 2")).to_contain_text("is not JSON")
    tab.get_by_role("group", name="open 2").get_by_label("arguments").fill('{"id": 4}')
    tab.get_by_role("button", name="Add a call").press("Enter")
    fresh = tab.get_by_role("group", name="New call")
    expect(fresh.get_by_label("name")).to_be_focused()
    fresh.get_by_label("name").select_option(label="close")
    assert look_at(tab, "label-tool-calls", by_keyboard=False) == []
    fresh.get_by_label("arguments").press("Control+Enter")
    expect(tab.get_by_role("heading", name="No decisions left to label")).to_be_visible()
    assert correction() == ("corrected", [{"name": "open", "arguments": {"id": 4}}, {"name": "close", "arguments": {}}])
    forgive(complaints)
