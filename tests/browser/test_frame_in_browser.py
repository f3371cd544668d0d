"""The frame that every page has: the theme, the palette, the menu of a narrow window, copying, the table of a chart."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from tests.browser.accessibility import axe_findings, look_at
from workspaces.access.actors import system
from workspaces.access.services import record_audit

GROUND = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((sum, one) => sum + +one, 0)"
"""Red, green and blue together: 0 is black, 765 white."""


@pytest.fixture
def overview(workspace: Any) -> str:
    return reverse("pages:runs", args=[workspace.slug])


def test_a_chosen_theme_holds_on_the_next_page_and_the_systems_comes_back(
    tab: Any, viewer: Any, overview: str, log_in: Any
) -> None:
    log_in(tab, viewer).goto(overview)
    light = tab.evaluate(GROUND)
    tab.get_by_role("button", name="Dark theme").click()
    dark = tab.evaluate(GROUND)
    assert light > 600 and dark < 150
    tab.reload()
    assert tab.evaluate(GROUND) == dark
    expect(tab.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "true")
    tab.get_by_role("button", name="System theme").click()
    assert tab.evaluate(GROUND) == light
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(GROUND) == dark


def test_the_frame_is_accessible_and_its_palette_goes_where_a_few_letters_say_and_keys_go_there_too(
    tab: Any, viewer: Any, overview: str, log_in: Any
) -> None:
    log_in(tab, viewer).goto(overview)
    assert look_at(tab, "frame", every_look=True) == []
    tab.get_by_role("button", name="Search or go to").click()
    tab.keyboard.type("zzzz")
    expect(tab.get_by_text("No pages or actions match.")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    assert tab.url.endswith(overview)
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("combobox", name="Page or action")).to_be_focused()
    tab.keyboard.type("exp")
    expect(tab.get_by_role("option", selected=True)).to_contain_text("Experiments")
    assert axe_findings(tab, part="dialog[open]") == []
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Experiments", level=1)).to_be_visible()
    tab.keyboard.press("g")
    tab.keyboard.press("d")
    expect(tab.get_by_role("heading", name="Decisions", level=1)).to_be_visible()
    tab.keyboard.press("?")
    tab.get_by_label("Use single-key shortcuts").uncheck()
    tab.get_by_role("button", name="Close").click()
    tab.keyboard.press("g")
    tab.keyboard.press("r")
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("dialog", name="Search or go to")).to_be_visible()
    assert tab.url.endswith("/decisions/")


def test_half_a_window_folds_the_sidebar_and_moments_are_local(
    open_tab: Any, admin: Any, workspace: Any, log_in: Any
) -> None:
    entry = record_audit(by=system(workspace), action="made", target="thing:1")
    written = entry.at.astimezone(ZoneInfo("America/Los_Angeles"))
    tab = log_in(open_tab(width=900, zone="America/Los_Angeles"), admin)
    tab.goto(reverse("pages:audit", args=[workspace.slug]))
    tab.mouse.move(600, 400)
    width = "() => document.querySelector('#sidebar').getBoundingClientRect().width"
    left = "() => document.querySelector('main').getBoundingClientRect().left"
    folded = tab.evaluate(left)
    assert tab.evaluate(width) < 60 and folded < 60
    assert axe_findings(tab) == []
    tab.get_by_role("link", name="Decisions", exact=True).focus()
    assert tab.evaluate(width) > 200 and tab.evaluate(left) == folded  # over the page, which does not move
    assert axe_findings(tab) == []
    expect(tab.locator("time").first).to_have_text(written.strftime("%H:%M:%S"))


def test_a_narrow_window_has_its_menu_behind_a_button(open_tab: Any, viewer: Any, overview: str, log_in: Any) -> None:
    tab = log_in(open_tab(width=360, dark=True), viewer)
    tab.goto(overview)
    decisions = tab.get_by_role("link", name="Decisions", exact=True)
    expect(decisions).to_be_hidden()
    tab.get_by_role("button", name="Menu").press("Enter")
    expect(decisions).to_be_visible()
    assert axe_findings(tab) == []
    tab.keyboard.press("Escape")
    expect(decisions).to_be_hidden()
    tab.get_by_role("button", name="Menu").click()
    decisions.click()
    expect(tab.get_by_role("heading", name="Decisions", level=1)).to_be_visible()
    expect(decisions).to_be_hidden()  # the next page begins with its menu closed


def test_components_fit_and_are_accessible_at_every_look(tab: Any, viewer: Any, log_in: Any) -> None:
    log_in(tab, viewer).goto(reverse("components"))
    assert look_at(tab, "components", every_look=True) == []


def test_components_do_what_they_promise(tab: Any, viewer: Any, log_in: Any) -> None:
    log_in(tab, viewer).goto(reverse("components"))
    _read_a_chart(tab)
    _dismiss_a_toast(tab)
    _close_a_dialog(tab)
    _copy_code(tab)


def _read_a_chart(tab: Any) -> None:
    """It has a tooltip and its numbers as a table, and takes the colours of the theme."""
    chart = tab.get_by_role("figure").filter(has_text="gain with its interval")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("canvas")).to_be_visible()
    chart.locator(".u-over").hover()
    expect(chart.locator(".chart-tip")).to_contain_text("agent 3")
    expect(chart.locator(".chart-tip")).to_contain_text("−0.02 [−0.07, 0.03]")
    chart.get_by_text("Numbers").click()
    expect(chart.get_by_role("row")).to_have_count(6)
    expect(chart.get_by_role("row").nth(3)).to_contain_text("−0.02 [−0.07, 0.03]")
    pixels = "() => document.querySelector('canvas').toDataURL()"
    light = tab.evaluate(pixels)
    tab.evaluate("() => theme.choose('dark')")
    tab.wait_for_function(f"light => ({pixels})() !== light", arg=light)


def _dismiss_a_toast(tab: Any) -> None:
    tab.get_by_role("button", name="Say something").click()
    toast = tab.get_by_role("listitem").filter(has_text="Version promoted.")
    expect(toast).to_be_visible()
    assert axe_findings(tab, part="#toasts") == []
    toast.get_by_role("button", name="Dismiss").click()
    expect(toast).to_have_count(0)


def _close_a_dialog(tab: Any) -> None:
    """It gives the focus back."""
    opener = tab.get_by_role("button", name="Open a dialog")
    opener.click()
    expect(tab.get_by_role("dialog", name="Stop the experiment?")).to_be_visible()
    assert axe_findings(tab, part="dialog[open]") == []
    tab.keyboard.press("Escape")
    expect(opener).to_be_focused()


def _copy_code(tab: Any) -> None:
    """In the language that was chosen, which holds on the next page."""
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("tab", name="curl").focus()
    tab.keyboard.press("ArrowRight")
    panel = tab.get_by_role("tabpanel", name="Python")
    expect(panel).to_be_visible()
    panel.get_by_role("button", name="Copy").click()
    expect(panel.get_by_text("Copied", exact=True)).to_be_attached()
    assert tab.evaluate("() => navigator.clipboard.readText()").startswith("answer = client.decide")
    tab.get_by_role("tab", name="TypeScript").click()
    tab.reload()
    expect(tab.get_by_role("tab", name="TypeScript")).to_have_attribute("aria-selected", "true")
