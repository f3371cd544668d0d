"""Pages of labelling queues: made by an admin, labelled in by two people, adjudicated, and what the admin then sees."""

import re
from uuid import UUID

import pytest
from django.urls import reverse

from decisions.models import Feedback, Label, LabelQueue, QueueItem
from tools.factories import DecisionFactory, MembershipFactory

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
FORM = {
    "name": "Tickets of May",
    "agent": "filer",
    "strategy": "sequential",
    "overlap": "2",
    "guidelines": "Be <kind>.",
}


def at(name, *more):
    return reverse(f"pages:{name}", args=["acme", "tickets-of-may", *more])


def cards(answer):
    return [UUID(found) for found in re.findall(r'data-card="([^"]+)"', answer.content.decode())]


@pytest.fixture
def made(agent, admin, page_client):
    """Six decisions, and a queue of them, made on the page."""
    decisions = [DecisionFactory(agent=agent, action="travel") for _ in range(6)]
    answer = page_client(admin).post(reverse("pages:label-queue-new", args=["acme"]), FORM | {"skip_policy": "drop"})
    assert (answer.status_code, answer["Location"]) == (302, at("label-queue"))
    return [decision.id for decision in decisions]


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


@pytest.mark.parametrize(
    ("fields", "says"), [({"name": ""}, "name"), ({"overlap": "6"}, "overlap"), ({"overlap": "x"}, "overlap")]
)
def test_a_queue_that_makes_no_sense_is_not_made(agent, admin, page_client, fields, says):
    answer = page_client(admin).post(reverse("pages:label-queue-new", args=["acme"]), FORM | fields)
    assert answer.status_code == 400 and says in answer.content.decode()
    assert not LabelQueue.objects.exists()


def test_a_label_takes_few_queries(made, labeller, page_client, django_assert_max_num_queries):
    ann = page_client(labeller)
    ann.get(at("label-queue-work"))
    with django_assert_max_num_queries(60):
        ann.post(at("label-queue-label", made[0]), {"verdict": "confirmed", "have": made[1:4]}, headers=HTMX)
