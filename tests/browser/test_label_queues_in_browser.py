"""Labelling queues in a real browser: by keyboard, with undo, and how the pages look at every width and in the dark."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from decisions.labelling.queues import QueueSetup, create_queue
from decisions.labelling.reservations import reserve_next
from decisions.labelling.resolution import submit_label
from decisions.models import Feedback, Label
from tests.browser.accessibility import look_at
from tools.factories import DecisionFactory, EpisodeFactory, LabelFactory, StepFactory
from workspaces.access.actors import person


def test_a_queue_is_labelled_by_keyboard_and_disputes_are_resolved(
    tab: Any, admin: Any, labeller: Any, by: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    made = [DecisionFactory(agent=agent, action="travel", confidence=0.1 * number) for number in range(1, 7)]
    setup = QueueSetup(name="Tickets", overlap=2, guidelines="A bill goes to finance.")
    queue = create_queue(by=by, slug="tickets", setup=setup)
    boss = person(admin, workspace, "admin")
    for place in reserve_next(by=boss, queue=queue, count=2).reservations:
        submit_label(by=boss, queue=queue, subject=place.subject, verdict="ignored")
    mine = Label.objects.filter(reviewer=labeller).order_by("id")

    def at(name: str) -> str:
        return reverse(f"pages:{name}", args=[workspace.slug, "tickets"])

    log_in(tab, labeller).goto(at("label-queue-work"))
    for decision in made[:2]:
        expect(tab.locator(f"[data-card='{decision.id}']")).to_be_visible()
        tab.keyboard.press("c")
    expect(tab.locator("[data-progress]")).to_contain_text("2 labelled by you today")
    expect(tab.locator("[data-card]")).to_have_count(4)
    tab.keyboard.press("u")
    expect(tab.locator("[data-progress]")).to_contain_text("1 labelled by you today")
    expect(tab.locator(f"[data-card='{made[1].id}']")).to_be_visible()
    tab.keyboard.press("s")
    expect(tab.locator(f"[data-card='{made[2].id}']")).to_be_visible()
    tab.keyboard.press("3")
    expect(tab.locator("[data-progress]")).to_contain_text("2 labelled by you today")
    assert [label.verdict for label in mine] == ["confirmed", "corrected"]
    assert look_at(tab, "label-queue-work") == []
    log_in(tab, admin).goto(at("label-queue"))
    assert look_at(tab, "label-queue") == []
    tab.get_by_role("link", name="Resolve disputes").click()
    expect(tab.get_by_role("heading", name="Resolve disputes")).to_be_visible()
    assert look_at(tab, "label-queue-disputes") == []
    tab.keyboard.press("c")
    expect(tab.get_by_role("heading", name="No disputes")).to_be_visible()
    assert Label.objects.filter(decision=made[0], pending=False).count() == 3
    for name, path in (
        ("label-queues", reverse("pages:label-queues", args=[workspace.slug])),
        ("label-queue-new", reverse("pages:label-queue-new", args=[workspace.slug])),
        ("label-queue-edit", at("label-queue-edit")),
    ):
        tab.goto(path)
        assert look_at(tab, name) == []


def test_similar_decisions_and_a_filter_are_labelled_in_bulk_and_undone(
    tab: Any, labeller: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    made = [DecisionFactory(agent=agent, action="travel", state={"text": f"a trip to Oslo {n}"}) for n in range(4)]
    other = DecisionFactory(agent=agent, action="travel", state={"text": "pay the bill"})
    LabelFactory(decision=made[3])
    log_in(tab, labeller).goto(reverse("pages:decision", args=[workspace.slug, made[0].pk]))
    tab.keyboard.press("f")
    expect(tab.get_by_role("checkbox")).to_have_count(3)
    assert look_at(tab, "decision-similar") == []
    for box in tab.get_by_role("checkbox").all():
        box.check()
    tab.get_by_role("button", name="Label the selected in bulk").click()
    expect(tab.get_by_role("heading", name="3 chosen decisions")).to_be_visible()
    tab.goto(reverse("pages:decisions", args=[workspace.slug]) + "?agent=filer")
    tab.keyboard.press("b")
    expect(tab.get_by_role("heading", name="5 decisions match")).to_be_visible()
    expect(tab.get_by_text("1 of them already has a person’s label")).to_be_visible()
    assert look_at(tab, "label-bulk") == []
    tab.get_by_role("button", name="Label in bulk").click()
    expect(tab.get_by_role("heading", name="4 decisions confirmed")).to_be_visible()
    assert Label.objects.filter(reviewer=labeller, bulk__isnull=False).count() == 4
    assert Label.objects.filter(decision=other).exists()
    assert look_at(tab, "label-bulk-detail") == []
    tab.get_by_role("button", name="Undo all 4 labels").click()
    expect(tab.get_by_text("The labels were undone.")).to_be_visible()
    assert not Label.objects.filter(reviewer=labeller).exists()


def test_an_episode_is_labelled_by_keyboard_and_undone(
    tab: Any, labeller: Any, by: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    made = [EpisodeFactory(agent=agent, query=f"mailbox {number}") for number in (1, 2)]
    for episode in made:
        StepFactory(episode=episode, name="find_notes", arguments={"query": "weekend"})
        DecisionFactory(agent=agent, episode=episode, action="travel")
    setup = QueueSetup(name="Mailboxes", subject="episode", strategy="sequential")
    create_queue(by=by, slug="mailboxes", setup=setup)
    log_in(tab, labeller).goto(reverse("pages:label-queue-work", args=[workspace.slug, "mailboxes"]))
    first, second = (tab.locator(f"[data-card='{episode.id}']") for episode in made)
    expect(first).to_be_visible()
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    expect(first.locator("details[open] .fold-text", has_text="weekend")).to_be_visible()
    assert look_at(tab, "label-queue-episode") == []
    tab.keyboard.press("n")
    tab.keyboard.type("it stopped half way")
    tab.keyboard.press("Escape")
    tab.keyboard.press("r")
    expect(second).to_be_visible()
    expect(tab.locator("[data-progress]")).to_contain_text("1 labelled by you today")
    label = Label.objects.get()
    assert (label.episode, label.verdict, label.note) == (made[0], "corrected", "it stopped half way")
    tab.keyboard.press("u")
    expect(first).to_be_visible()
    expect(tab.locator("[data-progress]")).to_contain_text("0 labelled by you today")
    assert not Label.objects.exists()
    assert [fed.metric for fed in Feedback.objects.order_by("id")] == ["verdict", "verdict_withdrawn"]
    tab.keyboard.press("c")
    expect(second).to_be_visible()
    tab.keyboard.press("c")
    expect(tab.get_by_role("heading", name="Nothing left for you in this queue")).to_be_visible()
    assert set(Label.objects.values_list("episode", "verdict")) == {(one.id, "confirmed") for one in made}
