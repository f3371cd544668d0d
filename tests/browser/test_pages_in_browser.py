"""What a person does with the pages, in a real browser: the keys, the live parts, the widths, the dark."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from decisions.models import Feedback, Label
from tools.factories import PASSWORD, RunMetricFactory


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
    def test_one_key_confirms_in_the_list_and_goes_on(
        self, tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
    ) -> None:
        first, second = scene.decisions[:2]
        log_in(tab, labeller).goto(decisions_page(workspace))
        tab.keyboard.press("j")
        expect(tab.locator(f"#d-{first.id}")).to_be_focused()
        tab.keyboard.press("c")
        expect(tab.locator(f"#d-{first.id} .row-outcome")).to_contain_text("confirmed")
        expect(tab.locator(f"#d-{second.id}")).to_be_focused()
        tab.keyboard.press("k")
        expect(tab.locator(f"#d-{first.id}")).to_be_focused()
        assert labels() == [(first.id, "confirmed", None)]

    def test_a_key_and_a_digit_correct_in_the_list(
        self, tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
    ) -> None:
        first = scene.decisions[0]
        right = next(option for option in first.options if option != first.action)
        digit = str(first.options.index(right) + 1)
        log_in(tab, labeller).goto(decisions_page(workspace))
        tab.keyboard.press(digit)  # no correction is open: a digit does nothing
        tab.keyboard.press("x")
        expect(tab.locator(f"#d-{first.id} details")).to_have_attribute("open", "")
        tab.keyboard.press("Escape")
        expect(tab.locator(f"#d-{first.id} details")).not_to_have_attribute("open", "")
        tab.keyboard.press("x")
        tab.keyboard.press(digit)
        expect(tab.locator(f"#d-{first.id} .row-outcome")).to_contain_text(right)
        assert labels() == [(first.id, "corrected", right)]

    def test_the_options_of_the_last_row_are_in_sight_and_close_when_one_moves_on(
        self, tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
    ) -> None:
        log_in(tab, labeller).goto(decisions_page(workspace))
        for _ in range(25):
            tab.keyboard.press("j")
        tab.keyboard.press("x")
        expect(tab.locator(f"#d-{scene.decisions[24].id} [data-digit='8']")).to_be_in_viewport(ratio=1)
        tab.keyboard.press("k")
        expect(tab.locator("details[data-correct][open]")).to_have_count(0)

    def test_one_decision_is_confirmed_corrected_and_left_by_keys(
        self, tab: Any, labeller: Any, scene: Any, log_in: Any
    ) -> None:
        first, second = scene.decisions[:2]
        right = next(option for option in first.options if option != first.action)
        log_in(tab, labeller).goto(at("decision", first))
        tab.keyboard.press("c")
        expect(tab.locator("#judgement .labels")).to_contain_text("confirmed")
        expect(tab.locator("#feedback-panel")).to_contain_text("verdict confirmed")
        tab.keyboard.press("x")
        expect(tab.get_by_text("choose what would have been right", exact=True)).to_be_visible()
        tab.keyboard.press(str(first.options.index(right) + 1))
        expect(tab.locator("#judgement .option.right")).to_contain_text(right)
        tab.keyboard.press("j")
        tab.wait_for_url(f"**{second.id}*")
        assert labels() == [(first.id, "confirmed", None), (first.id, "corrected", right)]
        assert Feedback.objects.filter(decision=first).count() == 2

    def test_help_opens_by_a_key_and_single_keys_can_be_turned_off(
        self, tab: Any, labeller: Any, scene: Any, log_in: Any
    ) -> None:
        log_in(tab, labeller).goto(at("decision", scene.decisions[0]))
        tab.keyboard.press("?")
        expect(tab.get_by_role("dialog", name="Keyboard")).to_be_visible()
        tab.keyboard.press("c")  # not while the help is open
        tab.get_by_label("Single keys act").uncheck()
        tab.get_by_role("button", name="Close").click()
        tab.reload()
        tab.keyboard.press("c")
        tab.keyboard.press("x")
        expect(tab.get_by_text("choose what would have been right", exact=True)).to_be_hidden()
        assert labels() == []

    def test_a_viewers_keys_judge_nothing(self, tab: Any, viewer: Any, scene: Any, workspace: Any, log_in: Any) -> None:
        log_in(tab, viewer).goto(decisions_page(workspace))
        for key in ("j", "c", "x", "1"):
            tab.keyboard.press(key)
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"**{scene.decisions[0].id}*")
        assert labels() == []


def test_the_list_pages_and_filters_in_place_and_history_brings_it_back(
    tab: Any, viewer: Any, scene: Any, workspace: Any, log_in: Any
) -> None:
    log_in(tab, viewer).goto(decisions_page(workspace))
    expect(tab.locator("[data-row]")).to_have_count(25)
    tab.get_by_role("link", name="Older").click()
    expect(tab.locator("[data-row]")).to_have_count(5)
    assert "before=" in tab.url
    tab.go_back()
    expect(tab.locator("[data-row]")).to_have_count(25)
    tab.get_by_label("Agent").select_option("filer")
    tab.wait_for_url("**agent=filer*")
    expect(tab.locator("[data-row]")).to_have_count(25)


def test_judging_works_without_scripts(browser: Any, live_server: Any, labeller: Any, scene: Any, log_in: Any) -> None:
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    try:
        tab = log_in(context.new_page(), labeller)
        first = scene.decisions[0]
        right = next(option for option in first.options if option != first.action)
        tab.goto(at("decision", first))
        tab.get_by_role("button", name=f"{right} would have been right").click()
        tab.get_by_text("Recorded as corrected.").wait_for()
        assert labels() == [(first.id, "corrected", right)]
    finally:
        context.close()


def drawn_pixels(tab: Any) -> int:
    """How many pixels of the page's first canvas are not empty."""
    return tab.evaluate(
        """() => {
          const canvas = document.querySelector("canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let count = 0;
          for (let i = 3; i < data.length; i += 4) if (data[i]) count += 1;
          return count;
        }"""
    )


def test_a_runs_chart_draws_grows_and_ends(tab: Any, admin: Any, scene: Any, log_in: Any) -> None:
    run = scene.running
    log_in(tab, admin).goto(at("run", run))
    expect(tab.locator("[data-chart][data-drawn]")).to_be_visible()
    assert drawn_pixels(tab) > 500
    expect(tab.get_by_role("img", name="learning_rate over steps, last 0.00176 at step 59")).to_be_visible()
    RunMetricFactory(run=run, step=70, name="loss", value=0.25)
    expect(tab.get_by_role("img", name="loss over steps, last 0.25 at step 70")).to_be_visible()
    type(run).objects.filter(id=run.id).update(state="cancelled", finished_at=timezone.now())
    expect(tab.locator("#run-status .badge").first).to_have_text("cancelled")
    expect(tab.locator("#run-status[hx-trigger]")).to_have_count(0)


def test_an_experiments_chart_draws_its_evidence(tab: Any, viewer: Any, scene: Any, log_in: Any) -> None:
    log_in(tab, viewer).goto(at("experiment", scene.experiment))
    expect(tab.locator("[data-chart][data-drawn]")).to_be_visible()
    assert drawn_pixels(tab) > 500
    expect(tab.locator(".chart-keys").first).to_contain_text("promote at")
    expect(tab.get_by_role("img", name=f"the difference is {scene.experiment.estimate:.3g}")).to_be_visible()


def test_dark_is_dark_and_light_is_light(open_tab: Any) -> None:
    grounds = []
    for dark in (False, True):
        tab = open_tab(dark=dark)
        tab.goto("/log-in")
        shown = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
        grounds.append(sum(int(part) for part in shown.removeprefix("rgb(").rstrip(")").split(",")))
    assert grounds[0] > 600 and grounds[1] < 150


def test_an_empty_workspace_says_what_to_do(open_tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    tab = log_in(open_tab(width=360), admin)
    for name in ("decisions", "runs", "models", "experiments"):
        tab.goto(reverse(f"pages:{name}", args=[workspace.slug]))
        expect(tab.locator(".empty")).to_be_visible()
    assert Client().get("/").status_code == 302
