"""Pages of labelling queues: made by an admin, labelled in by two people, adjudicated, and what the admin then sees."""

import re
from uuid import UUID

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import Feedback, Label, LabelQueue, QueueItem
from tools.factories import (
    DecisionFactory,
    EpisodeFactory,
    LabelFactory,
    LabelQueueFactory,
    MembershipFactory,
    StepFactory,
)

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
FORM = {
    "name": "Tickets of May",
    "agent": "filer",
    "strategy": "sequential",
    "overlap": "2",
    "guidelines": "Be <kind>.",
    "skip_policy": "drop",
    "hold_seconds": "900",
    "gold_share": "0",
    "blind": "on",
}


def at(name, *more):
    return reverse(f"pages:{name}", args=["acme", "tickets-of-may", *more])


def cards(answer):
    return [UUID(found) for found in re.findall(r'data-card="([^"]+)"', answer.content.decode())]


@pytest.fixture
def made(agent, admin, page_client):
    """Six decisions, and a queue of them, made on the page."""
    decisions = [DecisionFactory(agent=agent, action="travel") for _ in range(6)]
    answer = page_client(admin).post(reverse("pages:label-queue-new", args=["acme"]), FORM)
    assert (answer.status_code, answer["Location"]) == (302, at("label-queue"))
    return [decision.id for decision in decisions]


@pytest.mark.slow
def test_two_reviewers_label_and_an_adjudicator_resolves(made, workspace, admin, labeller, viewer, page_client):
    ann, ben = page_client(labeller), page_client(MembershipFactory(workspace=workspace, role="labeller").user)
    page = ann.get(at("label-queue-work"))
    assert cards(page) == made[:4] and "Be &lt;kind&gt;." in page.content.decode()
    assert cards(ben.get(at("label-queue-work"))) == made[:4]
    first = {"have": made[1:4], "verdict": "confirmed"}
    assert cards(ann.post(at("label-queue-label", made[0]), first, headers=HTMX)) == [made[4]]
    undone = ann.post(at("label-queue-undo", made[0]), {"have": made[1:5]}, headers=HTMX)
    assert undone.status_code == 200 and not Label.objects.exists()
    ann.post(at("label-queue-label", made[0]), first, headers=HTMX)
    assert not Feedback.objects.exists()
    ben.post(at("label-queue-label", made[0]), {"option": "2", "note": "see"}, headers=HTMX)
    assert QueueItem.objects.get(decision=made[0]).state == "disputed"
    refused = ann.post(at("label-queue-adjudicate", made[0]), {"verdict": "confirmed"})
    assert refused.status_code == 403 and not Feedback.objects.exists()
    assert cards(ann.get(at("label-queue-disputes"))) == []
    boss = page_client(admin)
    disputes = boss.get(at("label-queue-disputes")).content.decode()
    assert "→" in disputes and "see" in disputes and str(labeller) not in disputes  # blind
    assert boss.post(at("label-queue-adjudicate", made[0]), {"verdict": "confirmed"}).status_code == 302
    assert [feedback.value for feedback in Feedback.objects.all()] == ["confirmed"]
    shown = boss.get(at("label-queue")).content.decode()
    assert "Krippendorff’s α 0.000 over 1 decision<" in shown and str(labeller) in shown
    assert "Krippendorff" not in page_client(viewer).get(at("label-queue")).content.decode()
    assert "Tickets of May" in ann.get(reverse("pages:label-queues", args=["acme"])).content.decode()


def test_a_skip_asks_by_the_queue_s_policy_and_a_closed_queue_nobody(made, admin, labeller, page_client):
    ann = page_client(labeller)
    ann.get(at("label-queue-work"))
    assert ann.post(at("label-queue-label", made[0]), {"skip": "1"}, headers=HTMX).status_code == 200
    assert QueueItem.objects.get(decision=made[0]).state == "dropped"
    page_client(admin).post(at("label-queue-change"), {"state": "closed"})
    assert ann.post(at("label-queue-label", made[1]), {"verdict": "confirmed"}, headers=HTMX).status_code == 409
    assert ann.get(at("label-queue-work")).status_code == 409
    assert not Label.objects.exists()


def test_a_queue_is_made_and_changed_with_everything_that_the_api_takes(
    agent, admin, labeller, viewer, page_client, workspace
):
    known, other = LabelFactory(decision=DecisionFactory(agent=agent)).decision, DecisionFactory(agent=agent)
    boss = page_client(admin)
    filters = {"verdict": "corrected", "version": "filer:7", "arm": "control", "since": "7d", "q": "bill", "agent": ""}
    more = {
        "strategy": "diversity",
        "reviewers": [labeller.email],
        "adjudicators": [labeller.email],
        "hold_seconds": "60",
        "gold_share": "0.25",
        "gold": f"{known.id}\n",
    }
    path = reverse("pages:label-queue-new", args=["acme"])
    assert boss.post(path, FORM | filters | more)["Location"] == at("label-queue")
    queue = LabelQueue.objects.get()
    assert queue.filters == {name: value for name, value in filters.items() if value}
    assert (queue.strategy, queue.hold_seconds, queue.gold_share, queue.blind) == ("diversity", 60, 0.25, True)
    assert [*queue.reviewers.all(), *queue.adjudicators.all()] == [labeller, labeller]
    assert QueueItem.objects.get().gold == {"verdict": "confirmed", "corrected_action": None}
    page = boss.get(at("label-queue-edit")).content.decode()
    assert f'<option value="{labeller.email}" selected>' in page and 'name="strategy"' not in page
    change = {"name": "Bills", "skip_policy": "ask_others", "hold_seconds": "90", "gold_share": "0.5"}
    wrong = change | {"reviewers": ["x@example.org"], "gold": str(other.id)}
    refused = boss.post(at("label-queue-edit"), wrong)
    assert refused.status_code == 400 and "x@example.org is not one of" in refused.content.decode()
    refused = boss.post(at("label-queue-edit"), wrong | {"reviewers": []})
    assert refused.status_code == 400 and f"{other.id} has no label that counts" in refused.content.decode()
    queue.refresh_from_db()
    assert (queue.name, queue.reviewers.count(), QueueItem.objects.count()) == ("Tickets of May", 1, 1)
    assert boss.post(at("label-queue-edit"), change | {"adjudicators": [viewer.email]}).status_code == 302
    queue.refresh_from_db()
    assert (queue.name, queue.hold_seconds, queue.blind, queue.gold_share) == ("Bills", 90, False, 0.5)
    assert [*queue.reviewers.all(), *queue.adjudicators.all()] == [viewer]
    labeller.memberships.update(deactivated_at=timezone.now())
    queue.reviewers.set([labeller])
    refused = boss.post(at("label-queue-edit"), change | {"reviewers": [labeller.email]})
    assert refused.status_code == 400 and "is not a member" in refused.content.decode()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "…"}, "name"),
        ({"overlap": "6"}, "overlap"),
        ({"overlap": "x"}, "overlap"),
        ({"since": "ever"}, "since"),
        ({"gold_share": "0.9"}, "gold_share"),
        ({"gold": "x"}, "gold"),
        ({"name": "taken"}, "name"),
        ({"subject": "episode", "arm": "control"}, "arm"),
        ({"session": "monday"}, "session"),
        ({"subject": "episode", "strategy": "diversity"}, "strategy"),
    ],
    ids=str,
)
@pytest.mark.quick_cases(3)
def test_a_queue_that_makes_no_sense_is_not_made(agent, admin, page_client, fields, field):
    LabelQueueFactory(workspace=agent.workspace, slug="taken")
    answer = page_client(admin).post(reverse("pages:label-queue-new", args=["acme"]), FORM | fields)
    assert answer.status_code == 400 and f'id="id_{field}_error"' in answer.content.decode()
    assert LabelQueue.objects.count() == 1


def test_a_label_takes_few_queries(made, labeller, page_client, django_assert_max_num_queries):
    ann = page_client(labeller)
    ann.get(at("label-queue-work"))
    with django_assert_max_num_queries(60):
        ann.post(at("label-queue-label", made[0]), {"verdict": "confirmed", "have": made[1:4]}, headers=HTMX)


def test_an_episode_is_shown_whole_and_gets_one_verdict(agent, admin, labeller, page_client):
    episode = EpisodeFactory(agent=agent, query="what came <in>?", final_response="three notes")
    StepFactory(episode=episode, name="find_notes", arguments={"query": "weekend"}, result={"found": "an invoice"})
    DecisionFactory(agent=agent, episode=episode, action="travel")
    page_client(admin).post(
        reverse("pages:label-queue-new", args=["acme"]), FORM | {"subject": "episode", "verdict": "no_verdict"}
    )
    assert LabelQueue.objects.get().filters == {"agent": "filer"}
    ann, ben = page_client(labeller), page_client(admin)
    shown = ann.get(at("label-queue-work"))
    assert cards(shown) == [episode.id]
    content = shown.content.decode()
    for text in ("what came &lt;in&gt;?", "find_notes", "weekend", "an invoice", "travel", "three notes"):
        assert text in content, text
    assert ann.post(at("label-queue-label", episode.id), {"verdict": "liked"}, headers=HTMX).status_code == 400
    assert not Label.objects.exists()
    said = {"verdict": "confirmed", "note": "all filed"}
    assert cards(ann.post(at("label-queue-label", episode.id), said, headers=HTMX)) == []
    ben.get(at("label-queue-work"))
    ben.post(at("label-queue-label", episode.id), {"verdict": "corrected"}, headers=HTMX)
    assert "all filed" in ben.get(at("label-queue-disputes")).content.decode() and not Feedback.objects.exists()
    ben.post(at("label-queue-adjudicate", episode.id), {"verdict": "corrected"})
    assert Feedback.objects.get(episode=episode).value == "corrected"
    assert "over 1 episode<" in ben.get(at("label-queue")).content.decode()
