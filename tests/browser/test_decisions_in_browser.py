"""Decisions and labelling in a real browser: keys, filters, many options, labelling, and every look of the pages."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from decisions.models import Feedback, Label, Skip
from tests.browser.accessibility import OVERFLOW, look_at
from tests.browser.conftest import PATIENCE
from tools.factories import DecisionFactory, LabelFactory, MembershipFactory, WorkspaceFactory

INTENTS = [
    f"{what}_{noun}"
    for what in ("block", "cancel", "explain", "find", "open", "order", "pay", "renew", "report", "change")
    for noun in ("card", "account", "transfer", "insurance", "meal", "reminder", "flight", "pin", "bill", "loan",
                 "alarm", "recipe", "exchange_rate", "playlist", "timezone")
]  # fmt: skip


def labels() -> list[tuple[Any, ...]]:
    return list(Label.objects.order_by("id").values_list("decision_id", "verdict", "corrected_action"))


def page(name: str, workspace: Any, query: str = "") -> str:
    return reverse(f"pages:{name}", args=[workspace.slug]) + query


def at(name: str, row: Any) -> str:
    return reverse(f"pages:{name}", args=[row.workspace.slug, row.pk])


def card(tab: Any) -> Any:
    return tab.locator("[data-card]:visible")


def uncertain_first(scene: Any) -> list[Any]:
    """The scene's decisions that have no verdict, as labelling shows them."""
    judged = set(Feedback.objects.values_list("decision_id", flat=True))
    waiting = [decision for decision in scene.decisions if decision.id not in judged]
    return sorted(waiting, key=lambda decision: (decision.confidence, -decision.id.int))


@pytest.fixture
def many(scene: Any) -> Any:
    """A decision among 150 options, with a state of several shapes."""
    total = len(INTENTS) * (len(INTENTS) + 1) / 2
    return DecisionFactory(
        agent=scene.agent,
        state={
            "text": "Someone used my card in a shop that I have never been to. What now?",
            "customer": {"since": 2019, "country": "PT", "products": ["current account", "travel insurance"]},
            "previous": [{"role": "user", "text": "Hello"}, {"role": "agent", "text": "How can I help?"}],
        },
        options=INTENTS,
        action="pay_bill",
        confidence=0.0132,
        propensity=0.0132,
        reasoning="The text names a payment in a shop.",
        alternatives=[
            {"action": option, "probability": (len(INTENTS) - place) / total} for place, option in enumerate(INTENTS)
        ],
    )


def test_labelling_goes_from_one_decision_to_the_next_by_keys(
    tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any
) -> None:
    waiting = uncertain_first(scene)
    log_in(tab, labeller).goto(page("decisions", workspace))
    tab.keyboard.press("l")
    expect(card(tab)).to_have_attribute("data-card", str(waiting[0].id))
    tab.keyboard.press("c")
    expect(card(tab)).to_have_attribute("data-card", str(waiting[1].id))
    right = next(place for place, option in enumerate(waiting[1].options) if option != waiting[1].action)
    tab.keyboard.press(str(right + 1))
    expect(card(tab)).to_have_attribute("data-card", str(waiting[2].id))
    tab.keyboard.press("n")
    tab.keyboard.type("cannot tell")
    tab.keyboard.press("Escape")
    tab.keyboard.press("s")
    expect(card(tab)).to_have_attribute("data-card", str(waiting[3].id))
    expect(tab.locator("[data-progress]")).to_contain_text("2 labelled by you today, 18 waiting")
    assert labels() == [
        (waiting[0].id, "confirmed", None),
        (waiting[1].id, "corrected", waiting[1].options[right]),
    ]
    assert Skip.objects.values_list("decision", "note").get() == (waiting[2].id, "cannot tell")
    tab.keyboard.press("u")
    expect(card(tab)).to_have_attribute("data-card", str(waiting[2].id))
    expect(tab.locator("[data-progress]")).to_contain_text("2 labelled by you today, 19 waiting")
    assert not Skip.objects.exists()
    assert [label[0] for label in labels()] == [waiting[0].id, waiting[1].id]


def test_labelling_faster_than_the_server_answers_loses_and_repeats_nothing(
    tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any, complaints: list[str]
) -> None:
    waiting = uncertain_first(scene)
    log_in(tab, labeller).goto(page("label", workspace))
    tab.context.set_offline(True)
    tab.keyboard.press("c")  # a label that does not arrive brings its decision back
    expect(tab.locator(".toast.error")).to_contain_text("The label was not saved")
    expect(card(tab)).to_have_attribute("data-card", str(waiting[0].id))
    assert labels() == []
    tab.context.set_offline(False)
    for number in range(len(waiting)):
        expect(card(tab)).to_have_attribute("data-card", str(waiting[number].id))
        tab.keyboard.press("c")
    expect(tab.get_by_role("heading", name="No decisions left to label")).to_be_visible()
    expect(tab.locator("[data-progress]")).to_contain_text("21 labelled by you today, 0 waiting")
    assert sorted(label[0] for label in labels()) == sorted(decision.id for decision in waiting)
    complaints[:] = [line for line in complaints if "ERR_INTERNET_DISCONNECTED" not in line]


def test_who_leaves_the_page_before_the_labels_have_arrived_has_labelled_all_the_same(
    tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any, complaints: list[str]
) -> None:
    waiting = uncertain_first(scene)[:6]
    log_in(tab, labeller).goto(page("label", workspace))
    for decision in waiting:
        expect(card(tab)).to_have_attribute("data-card", str(decision.id))
        tab.keyboard.press("c")
    tab.goto(reverse("pages:overview", args=[workspace.slug]))
    ended = time.monotonic() + PATIENCE / 1000
    while len(labels()) < len(waiting) and time.monotonic() < ended:
        tab.wait_for_timeout(100)
    assert sorted(label[0] for label in labels()) == sorted(decision.id for decision in waiting)
    complaints.clear()  # the answer that the page was waiting for when it was left


def test_one_of_150_options_is_chosen_by_typing(
    tab: Any, labeller: Any, many: Any, workspace: Any, log_in: Any
) -> None:
    log_in(tab, labeller).goto(page("label", workspace))
    expect(card(tab)).to_have_attribute("data-card", str(many.id))
    tab.keyboard.press("/")
    tab.keyboard.type("card rep")
    expect(card(tab).locator("[data-option]:visible")).to_have_count(1)
    tab.keyboard.press("Enter")
    expect(card(tab)).not_to_have_attribute("data-card", str(many.id))
    expect(tab.locator("[data-progress]")).to_contain_text("1 labelled by you today")
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.goto(at("decision", many))
    tab.keyboard.press("x")
    tab.keyboard.type("no such thing")
    expect(tab.get_by_text("No options match.")).to_be_visible()
    tab.keyboard.press("Enter")
    tab.locator("[data-find-option]").fill("block card")
    tab.keyboard.press("Enter")
    expect(tab.locator("#label-panel .option.right")).to_contain_text("block_card")
    assert tab.evaluate(OVERFLOW) <= 0
    assert labels() == [(many.id, "corrected", "report_card"), (many.id, "corrected", "block_card")]


def test_the_list_pages_and_filters_in_place_and_history_brings_it_back(
    tab: Any, labeller: Any, viewer: Any, scene: Any, workspace: Any, log_in: Any
) -> None:
    log_in(tab, labeller).goto(page("decisions", workspace))
    expect(tab.locator("[data-row]")).to_have_count(25)
    tab.get_by_role("link", name="Older").click()
    expect(tab.locator("[data-row]")).to_have_count(5)
    assert "before=" in tab.url
    tab.go_back()
    expect(tab.locator("[data-row]")).to_have_count(25)
    tab.get_by_label("Verdict").select_option("corrected")
    tab.wait_for_url("**/decisions/?verdict=corrected")
    expect(tab.locator("[data-row]")).to_have_count(3)
    tab.get_by_label("Agent").select_option("filer")
    tab.wait_for_url("**/decisions/?agent=filer&verdict=corrected")
    expect(tab.locator("#label-link")).to_have_attribute(
        "href", page("label", workspace, "?agent=filer&verdict=corrected")
    )
    tab.get_by_role("link", name="Remove filter Verdict").click()
    tab.wait_for_url("**/decisions/?agent=filer")
    tab.get_by_role("link", name="Most uncertain").click()
    tab.wait_for_url("**order=uncertain")
    expect(tab.locator("[data-row]").first).to_have_id(f"d-{min(scene.decisions, key=lambda one: one.confidence).id}")
    tab.keyboard.press("/")
    tab.keyboard.type(str(scene.decisions[7].id))
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab.go_back()
    expect(tab.locator("[data-row]")).to_have_count(25)
    log_in(tab, viewer).reload()
    expect(tab.get_by_label("Agent")).to_have_value("filer")
    first = tab.locator("[data-row]").first.get_attribute("id").removeprefix("d-")
    for key in ("j", "c", "x", "1"):  # a viewer's keys judge nothing
        tab.keyboard.press(key)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**{first}*")
    assert labels() == []


def test_every_page_of_deciding_fits_and_is_accessible(
    tab: Any, admin: Any, scene: Any, many: Any, workspace: Any, log_in: Any, complaints: list[str]
) -> None:
    LabelFactory(decision=scene.decisions[5], reviewer=admin, verdict="confirmed", note="as the client wanted")
    found: list[str] = []

    def show(name: str, path: str = "", *, keys: str = "") -> None:
        if path:
            tab.goto(path)
        for key in keys.split():
            tab.keyboard.press(key)
        found.extend(look_at(tab, name, by_keyboard=not keys))

    show("person-log-in", "/log-in")
    log_in(tab, admin)
    show("ledger", page("decisions", workspace))
    show("ledger-correcting", keys="j j x")
    expect(tab.locator("details[data-correct][open]")).to_have_count(1)
    show("ledger-filtered", page("decisions", workspace, "?agent=filer&verdict=corrected&since=24h"))
    show("decision-judged", at("decision", scene.decisions[5]))
    show("label-many", page("label", workspace))
    Label.objects.bulk_create(
        Label(workspace=workspace, decision=one, reviewer=admin, verdict="confirmed") for one in [many]
    )
    show("label", page("label", workspace))
    MembershipFactory(
        user=admin, workspace=WorkspaceFactory(name="Northwind Support", slug="northwind"), role="labeller"
    )
    show("person-choose", "/")
    show("disk", page("disk", workspace))
    show("person-password", "/change-password")
    show("error-404", "/w/nowhere/")
    show("error-refused", page("decisions", workspace, "?verdict=splendid"))
    complaints[:] = [line for line in complaints if "/w/nowhere/" not in line and "splendid" not in line]
    complaints[:] = [line for line in complaints if "Failed to load resource" not in line]
    assert found == []
