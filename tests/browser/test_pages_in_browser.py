"""What a person does with the pages, in a real browser: logging in, the keys, and pages without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from decisions.models import Feedback, Label
from tools.factories import PASSWORD

pytestmark = pytest.mark.core


def labels() -> list[tuple[Any, ...]]:
    return list(Label.objects.order_by("id").values_list("decision_id", "verdict", "corrected_action"))


def at(name: str, row: Any) -> str:
    return reverse(f"pages:{name}", args=[row.workspace.slug, row.pk])


def decisions_page(workspace: Any) -> str:
    return reverse("pages:decisions", args=[workspace.slug])


def test_a_one_time_password_leads_to_an_own_one_and_home(tab: Any, admin: Any) -> None:
    admin.must_change_password = True
    admin.save()
    tab.goto("/log-in")
    tab.get_by_label("Email").fill(admin.email)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Log in").click()
    expect(tab.get_by_role("heading", name="Change your password")).to_be_visible()
    tab.get_by_label("Old password").fill(PASSWORD)
    tab.get_by_label("New password", exact=True).fill("a harbour full of kites")
    tab.get_by_label("New password confirmation").fill("a harbour full of kites")
    tab.get_by_role("button", name="Change password").click()
    expect(tab.get_by_role("heading", name="Acme")).to_be_visible()
    tab.locator("summary", has_text="Owner").click()
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_role("heading", name="Log in")).to_be_visible()


class TestKeys:
    def test_decisions_are_confirmed_corrected_and_taken_back_in_the_list(
        self, tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
    ) -> None:
        first, second = scene.decisions[:2]
        right = next(option for option in first.options if option != first.action)
        digit = str(first.options.index(right) + 1)
        row = tab.locator(f"#d-{first.id}")
        log_in(tab, labeller).goto(decisions_page(workspace))
        tab.keyboard.press("j")
        expect(row).to_be_focused()
        tab.keyboard.press("c")
        expect(row.locator(".row-outcome")).to_contain_text("confirmed")
        expect(tab.locator(f"#d-{second.id}")).to_be_focused()
        assert labels() == [(first.id, "confirmed", None)]
        tab.keyboard.press("u")
        expect(row.locator(".row-outcome")).to_contain_text("no verdict")
        expect(row).to_be_focused()
        assert labels() == []
        tab.keyboard.press(digit)  # no correction is open: a digit does nothing
        tab.keyboard.press("x")
        expect(row.locator("details")).to_have_attribute("open", "")
        tab.keyboard.press("Escape")
        expect(row.locator("details")).not_to_have_attribute("open", "")
        tab.keyboard.press("x")
        tab.keyboard.press(digit)
        expect(row.locator(".row-outcome")).to_contain_text(right)
        expect(tab.locator(f"#d-{second.id}")).to_be_focused()
        assert labels() == [(first.id, "corrected", right)]
        tab.keyboard.press("k")
        expect(row).to_be_focused()
        for _ in range(24):
            tab.keyboard.press("j")
        tab.keyboard.press("x")  # the options of the last row are in sight, and close when one moves on
        expect(tab.locator(f"#d-{scene.decisions[24].id} [data-digit='8']")).to_be_in_viewport(ratio=1)
        tab.keyboard.press("k")
        expect(tab.locator("details[data-correct][open]")).to_have_count(0)

    def test_one_decision_is_judged_and_left_by_keys_unless_they_are_turned_off(
        self, tab: Any, labeller: Any, scene: Any, log_in: Any
    ) -> None:
        first, second = scene.decisions[:2]
        right = next(option for option in first.options if option != first.action)
        log_in(tab, labeller).goto(at("decision", first))
        tab.keyboard.press("c")
        expect(tab.locator("#label-panel .labels")).to_contain_text("confirmed")
        expect(tab.locator("#feedback-panel")).to_contain_text("verdict confirmed")
        tab.keyboard.press("u")
        expect(tab.locator("#label-panel .labels")).to_have_count(0)
        assert labels() == []
        tab.keyboard.press("c")
        expect(tab.locator("#label-panel .labels")).to_contain_text("confirmed")
        tab.keyboard.press("x")
        expect(tab.get_by_text("Choose the right option", exact=True)).to_be_visible()
        tab.keyboard.press(str(first.options.index(right) + 1))
        expect(tab.locator("#label-panel .option.right")).to_contain_text(right)
        judged = [(first.id, "confirmed", None), (first.id, "corrected", right)]
        assert labels() == judged
        assert Feedback.objects.filter(decision=first).count() == 4  # one takes the first verdict back
        tab.keyboard.press("j")
        tab.wait_for_url(f"**{second.id}*")
        tab.keyboard.press("?")
        expect(tab.get_by_role("dialog", name="Keyboard")).to_be_visible()
        tab.keyboard.press("c")  # not while the help is open
        tab.get_by_label("Use single-key shortcuts").uncheck()
        tab.get_by_role("button", name="Close").click()
        tab.reload()
        tab.keyboard.press("c")
        tab.keyboard.press("x")
        expect(tab.get_by_text("Choose the right option", exact=True)).to_be_hidden()
        assert labels() == judged


def test_menu_and_judging_work_without_scripts(
    browser: Any, live_server: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
) -> None:
    context = browser.new_context(
        base_url=live_server.url, java_script_enabled=False, viewport={"width": 360, "height": 800}
    )
    try:
        tab = log_in(context.new_page(), labeller)
        tab.goto(reverse("pages:runs", args=[workspace.slug]))
        tab.get_by_role("button", name="Menu").click()
        tab.get_by_role("link", name="Experiments").click()
        expect(tab.get_by_role("heading", name="Experiments", level=1)).to_be_visible()
        first = scene.decisions[0]
        right = next(option for option in first.options if option != first.action)
        tab.goto(at("decision", first))
        tab.get_by_role("button", name=f"{right} choose as the right option").click()
        tab.get_by_text("Recorded as corrected.").wait_for()
        assert labels() == [(first.id, "corrected", right)]
    finally:
        context.close()
