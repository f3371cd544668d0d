"""A queue over the API: two reviewers, a dispute, an adjudicator, and what the queue then tells."""

import pytest

from decisions.models import Feedback, Label, LabelQueue
from tools.factories import DecisionFactory, LabelFactory
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db

MADE = {"slug": "tickets", "name": "Tickets", "filters": {"agent": "filer"}, "overlap": 2, "strategy": "sequential"}
BOTH = pytest.mark.parametrize("subject", ["decision", "episode"])


@pytest.fixture
def decision(agent):
    return DecisionFactory(agent=agent, action="travel")


@BOTH
@pytest.mark.quick_cases(1)
def test_from_the_first_label_to_the_resolution(api, admin, labeller, viewer, make_one, subject):
    boss, ann, key = api.person(admin), api.person(labeller), api("feedback:write")
    assert boss.post("label-queues", MADE | {"subject": subject}).json()["subject"] == subject
    one, other = make_one(), {"decision": "episode", "episode": "decision"}[subject]
    at = f"label-queues/tickets/{subject}s/{one.id}"
    for who, said in ((ann, {"verdict": "confirmed"}), (key, {"verdict": "corrected"})):
        assert who.post(f"{at}/label", said).status_code in {404, 409}  # not in the queue yet, or not held
        following = who.post("label-queues/tickets/next").json()
        assert following[subject]["id"] == str(one.id) and following["expires_at"] and following[other] is None
        assert who.post(f"label-queues/tickets/{other}s/{one.id}/label", said).status_code == 404
        assert who.post(f"{at}/draft", {"note": "hm"}).json() == {"note": "hm"}
        assert who.post("label-queues/tickets/next").json()["draft"] == {"note": "hm"}
        assert who.post(f"{at}/discard").json()["state"] == "waiting"
        who.post("label-queues/tickets/next")
        answer = who.post(f"{at}/label", said)
        assert answer.status_code == 201, answer.content
    assert answer.json()["state"] == "disputed"
    assert answer.json()["label"]["labelled_by"].startswith("key:")
    assert ann.post("label-queues/tickets/next").json()[subject] is None
    reader = api.person(viewer)
    [dispute] = reader.get("label-queues/tickets/disputes").json()["results"]
    assert (dispute[subject], dispute[other]) == (str(one.id), None)
    assert [label["labelled_by"] for label in dispute["labels"]] == [None, None]  # blind
    assert boss.request("PATCH", "label-queues/tickets", {"blind": False}).status_code == 200
    [dispute] = reader.get("label-queues/tickets/disputes").json()["results"]
    assert "Labeller" in {label["labelled_by"] for label in dispute["labels"]}
    assert ann.post(f"{at}/adjudicate", {"verdict": "confirmed"}).status_code == 403
    assert not Feedback.objects.exists()
    resolved = boss.post(f"{at}/adjudicate", {"verdict": "confirmed"})
    assert (resolved.status_code, resolved.json()["state"]) == (201, "resolved")
    assert Feedback.objects.get().value == "confirmed"
    progress = reader.get("label-queues/tickets").json()["progress"]
    assert (progress["resolved"], progress["labels"], progress["waiting"]) == (1, 2, 0)
    agreement = boss.get("label-queues/tickets/agreement").json()
    assert (agreement["decisions"], agreement["alpha"]) == (1, 0.0)
    assert boss.post(f"{at}/undo").json()["state"] == "disputed"


@BOTH
@pytest.mark.quick_cases(1)
def test_a_gold_answer_looks_like_any_other(api, admin, labeller, agent, make_one, subject):
    known = make_one()
    LabelFactory(**{"decision": None, subject: known}, workspace=agent.workspace)
    boss, ann = api.person(admin), api.person(labeller)
    boss.post("label-queues", MADE | {"slug": "gold", "subject": subject, "overlap": 1, "gold_share": 0.5})
    for wrong in ({}, {"decisions": [str(known.id)], "episodes": [str(known.id)]}):
        assert boss.post("label-queues/gold/gold", wrong).status_code == 400
    assert boss.post("label-queues/gold/gold", {f"{subject}s": [str(known.id)]}).json() == {"added": 1}
    for _ in range(8):
        make_one()
        following = ann.post("label-queues/gold/next").json()[subject]["id"]
        answer = ann.post(f"label-queues/gold/{subject}s/{following}/label", {"verdict": "ignored"})
        assert answer.json()["state"] == "resolved"
    assert Feedback.objects.filter(**{subject: known}).count() == 1
    reviewers = boss.get("label-queues/gold/agreement").json()["reviewers"]
    assert reviewers[0] | {"pace": None} == {
        "reviewer": "Labeller", "labels": 8, "gold": 1, "accuracy": 0.0, "pace": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"overlap": 6}, "overlap"),
        ({"colour": "red"}, "colour"),
        ({"filters": {"since": "ever"}}, "filters.since"),
        ({"subject": "step"}, "subject"),
        ({"subject": "episode", "filters": {"verdict": "confirmed"}}, "filters"),
        ({"adjudicators": ["outsider@example.org"]}, "adjudicators"),
    ],
    ids=str,
)
def test_a_bad_queue_is_refused_and_not_made(api, outsider, fields, field):
    answer = api("admin").post("label-queues", MADE | fields)
    assert answer.status_code == 400
    assert {fault["field"] for fault in answer.json()["error"]["fields"]} == {field}
    assert not LabelQueue.objects.exists() and not AuditEntry.objects.filter(action__startswith="label_queue").exists()


def test_a_closed_queue_takes_no_label(api, admin, labeller, decision):
    boss, ann = api.person(admin), api.person(labeller)
    boss.post("label-queues", MADE)
    ann.post("label-queues/tickets/next")
    assert boss.request("PATCH", "label-queues/tickets", {"state": "closed"}).json()["state"] == "closed"
    for path in ("next", f"decisions/{decision.id}/label", f"decisions/{decision.id}/skip"):
        assert ann.post(f"label-queues/tickets/{path}", {"verdict": "confirmed"}).status_code == 409
    assert not Label.objects.exists()
