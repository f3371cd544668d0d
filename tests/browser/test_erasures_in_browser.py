"""Erasing a person in a real browser: counted first, by keys alone, at every width, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from decisions.models import Decision
from jobs.runner import run_job
from tests.browser.accessibility import look_at
from tools.factories import (
    DecisionFactory,
    FeedbackFactory,
    ItemFactory,
    LabelFactory,
    ProjectFactory,
    StatusChangeFactory,
    StepFactory,
)
from training.lineage.erasure import read_person, start_erasure
from training.models import Erasure

LONG = "ann.of-a-long-name@" + "department-" * 8 + "example.org"


@pytest.fixture
def people(scene: Any) -> Any:
    """One with a long name and all that may be found of her, who shares an item; one who was erased; one who waits."""
    workspace = scene.agent.workspace
    ProjectFactory(workspace=workspace, ref="p-1", name="House")
    items = [ItemFactory(workspace=workspace, ref=f"i-{n}", project_ref="p-1") for n in range(3)]
    for number in range(6):
        decision = DecisionFactory(agent=scene.agent, unit=LONG, item_ref=f"i-{number % 3}", project_ref="p-1")
        FeedbackFactory(decision=decision)
        StepFactory(decision=decision)
        LabelFactory(decision=decision)
        StatusChangeFactory(item=items[number % 3], decision=decision)
    DecisionFactory(agent=scene.agent, unit="bob", item_ref="i-0", project_ref="p-1")
    DecisionFactory(agent=scene.agent, unit="carol")
    return workspace


def start(by: Any, name: str) -> Erasure:
    return start_erasure(by=by, person=read_person(unit=name, user=None))


def test_every_state_of_the_page_fits_and_is_accessible(
    tab: Any, owner: Any, by: Any, people: Any, log_in: Any
) -> None:
    log_in(tab, owner)
    found: list[str] = []

    def count(name: str) -> None:
        tab.goto(reverse("pages:erasures", args=[people.slug]))
        tab.get_by_label("Name", exact=True).fill(name)
        tab.get_by_role("button", name="Preview").click()

    tab.goto(reverse("pages:erasures", args=[people.slug]))
    here = tab.locator("nav a[aria-current=page]")
    assert [text.strip() for text in here.all_text_contents()] == ["Erasures"]
    count(LONG)
    expect(tab.get_by_text("1 item and 1 project of theirs will stay")).to_be_visible()
    found += look_at(tab, "erasures-counted")
    count("nobody")
    expect(tab.get_by_role("button", name="Erase permanently")).to_have_count(0)
    assert run_job(start(by, "carol").job_id) == "succeeded"
    start(by, "bob")
    tab.goto(reverse("pages:erasures", args=[people.slug]))
    found += look_at(tab, "erasures-asked")
    assert found == []


def test_by_keys_alone(tab: Any, owner: Any, people: Any, log_in: Any) -> None:
    log_in(tab, owner).goto(reverse("pages:erasures", args=[people.slug]))
    tab.get_by_label("Name", exact=True).focus()
    tab.keyboard.type("bob")
    tab.keyboard.press("Enter")
    button = tab.get_by_role("button", name="Erase permanently")
    expect(button).to_be_visible()
    assert not Erasure.objects.exists()
    button.focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("The erasure has started")).to_be_visible()
    assert run_job(Erasure.objects.get().job_id) == "succeeded"
    tab.reload()
    row = tab.get_by_role("row").nth(1)
    expect(row).to_contain_text("succeeded")
    expect(row.locator("td[data-label=Decisions]")).to_have_text("1")
    expect(row.locator("td[data-label=Items]")).to_have_text("0")
    assert not Decision.objects.filter(unit="bob").exists()
