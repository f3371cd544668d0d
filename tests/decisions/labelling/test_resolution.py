"""Several reviewers of one decision: nothing counts before they are judged together."""

import pytest

from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.labelling.agreement import measure_agreement
from decisions.labelling.labels import label_decision, withdraw_label
from decisions.labelling.queues import QueueSetup, add_gold, create_queue
from decisions.labelling.reservations import reserve_next
from decisions.labelling.resolution import adjudicate_item, submit_label, undo_in_queue
from decisions.models import Feedback, Label, QueueItem, Reward
from decisions.models.verdicts import label_key
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.actions import make_decision_to_correct
from tools.factories import DecisionFactory
from workspaces.errors import Conflict, InvalidInput, NotAllowed

pytestmark = pytest.mark.django_db


def say(by, queue, verdict, **fields):
    [place] = reserve_next(by=by, queue=queue).reservations
    return submit_label(by=by, queue=queue, subject=place.subject, verdict=verdict, **fields)


def rewarded(agent):
    calculate_rewards(current_reward_spec(agent))
    newest = Reward.objects.order_by("-version").first()
    return newest.value if newest is not None else None


class TestAgreement:
    def test_nothing_counts_before_the_last_and_then_one_verdict(self, queue, reviewer, agent, api):
        tickets = queue(1, overlap=2)
        ann, bob = reviewer("ann"), reviewer("bob")
        item, first = say(ann, tickets, "corrected", corrected_action="health")
        assert (item.state, first.pending) == ("waiting", True)
        assert not Feedback.objects.exists() and rewarded(agent) is None
        shown = api("export:read").get(f"decisions/{item.decision_id}").json()
        assert shown["labels"] == []  # nobody is led by what others said
        item, last = say(bob, tickets, "corrected", corrected_action="health")
        assert (item.state, item.resolution) == ("resolved", last)
        assert [feedback.idempotency_key for feedback in Feedback.objects.all()] == [label_key(last)]
        assert rewarded(agent) == pytest.approx(0.375)
        assert not Label.objects.filter(pending=True).exists()
        with pytest.raises(Conflict):  # somebody else resolved it
            undo_in_queue(by=ann, queue=tickets, subject=item.decision_id)
        undo_in_queue(by=bob, queue=tickets, subject=item.decision_id)
        assert list(Label.objects.values_list("id", "pending")) == [(first.id, True)]
        assert rewarded(agent) is None

    def test_the_same_verdict_with_another_action_is_a_dispute(self, queue, reviewer):
        tickets = queue(1, overlap=2)
        say(reviewer("ann"), tickets, "corrected", corrected_action="health")
        item, _ = say(reviewer("bob"), tickets, "corrected", corrected_action="finance")
        assert item.state == "disputed" and not Feedback.objects.exists()

    def test_corrections_agree_by_what_they_say_and_alpha_of_verdicts_leaves_them_out(self, by, reviewer, workspace):
        shown = [make_decision_to_correct(workspace, "structured"), make_decision_to_correct(workspace, "text")]
        tickets = create_queue(by=by, slug="forms", setup=QueueSetup(name="Forms", overlap=2))
        right = shown[0].action | {"share": 1}
        said = {
            "ann": {shown[0].id: right, shown[1].id: "On Friday."},
            "bob": {shown[0].id: dict(reversed(right.items())) | {"share": 1.0}, shown[1].id: "On Friday"},
        }
        states = {}
        for name, corrections in said.items():
            actor = reviewer(name)
            for place in reserve_next(by=actor, queue=tickets, count=2).reservations:
                corrected = {"verdict": "corrected", "corrected_action": corrections[place.subject]}
                item, _ = submit_label(by=actor, queue=tickets, subject=place.subject, **corrected)
                states[item.decision_id] = item.state
        assert states == {shown[0].id: "resolved", shown[1].id: "disputed"}
        assert Feedback.objects.get().value == "corrected"
        agreement = measure_agreement(tickets)
        # o_aa = 2, o_bc = o_cb = 1: n = 4, 1 − 3·2/(16 − 4 − 1 − 1)
        assert agreement.alpha == pytest.approx(1 - 3 * 2 / 10)
        assert agreement.verdict_alpha is None  # they all said the same

    def test_a_label_said_again_is_the_same_and_another_is_refused(self, queue, reviewer):
        tickets, ann = queue(1), reviewer("ann")
        item, label = say(ann, tickets, "confirmed")
        again = {"by": ann, "queue": tickets, "subject": item.decision_id}
        assert submit_label(**again, verdict="confirmed")[1] == label
        with pytest.raises(Conflict):
            submit_label(**again, verdict="ignored")
        with pytest.raises(Conflict):  # the decision's own page leaves queues alone
            withdraw_label(by=ann, decision=label.decision)
        assert Label.objects.count() == 1 and Feedback.objects.count() == 1

    def test_a_label_that_makes_no_sense_leaves_the_place_held(self, queue, reviewer):
        tickets, ann = queue(1), reviewer("ann")
        with pytest.raises(InvalidInput):
            say(ann, tickets, "corrected", corrected_action="gardening")
        assert not Label.objects.exists() and len(reserve_next(by=ann, queue=tickets).reservations) == 1


class TestAdjudication:
    def test_an_adjudicator_s_label_counts_and_can_be_taken_back(self, queue, reviewer, agent):
        judge = reviewer("judy")
        tickets = queue(1, overlap=2, adjudicators=["judy@example.org"])
        say(reviewer("ann"), tickets, "confirmed")
        item, _ = say(reviewer("bob"), tickets, "corrected", corrected_action="health")
        given = {"queue": tickets, "subject": item.decision_id}
        with pytest.raises(NotAllowed):
            adjudicate_item(by=reviewer("cem"), **given, verdict="confirmed")
        assert not Feedback.objects.exists() and rewarded(agent) is None
        item, label = adjudicate_item(by=judge, **given, verdict="confirmed")
        assert (item.state, item.resolution) == ("resolved", label)
        assert [feedback.idempotency_key for feedback in Feedback.objects.all()] == [label_key(label)]
        assert rewarded(agent) == pytest.approx(0.75)
        with pytest.raises(Conflict):
            adjudicate_item(by=judge, **given, verdict="ignored")
        assert undo_in_queue(by=judge, **given).state == "disputed"
        assert rewarded(agent) is None
        adjudicate_item(by=reviewer("boss", "admin"), **given, verdict="ignored")
        assert QueueItem.objects.get().state == "resolved" and Label.objects.count() == 3


class TestGold:
    def test_gold_is_asked_of_everyone_once_and_counts_for_nothing(self, queue, reviewer, by, agent):
        tickets = queue(30, gold_share=0.5)
        known = DecisionFactory(agent=agent, action="travel")
        label_decision(by=reviewer("boss", "admin"), decision=known, verdict="corrected", corrected_action="health")
        assert add_gold(by=by, queue=tickets, subjects=[known.id]) == 1
        assert add_gold(by=by, queue=tickets, subjects=[known.id]) == 0
        for name in ("ann", "bob"):
            who, seen = reviewer(name), []
            for _ in range(10):
                item, _label = say(who, tickets, "confirmed")
                seen.append(item.decision_id)
            assert seen.count(known.id) == 1
        answers = Label.objects.filter(decision=known, pending=True)
        assert answers.count() == 2
        assert Feedback.objects.filter(decision=known).count() == 1

    @pytest.mark.parametrize(
        ("source", "verdict", "correction", "taken"),
        [
            ("human", "corrected", "health", True),
            ("human", "overridden", "health", True),
            ("human", "confirmed", None, True),
            ("human", "corrected", None, False),
            ("human", "ignored", None, False),
            ("llm", "corrected", "health", False),
            ("code", "confirmed", None, False),
            ("system", "corrected", "health", False),
        ],
    )
    def test_what_a_person_said_through_an_app_is_gold_where_it_says_what_is_right(
        self, queue, reviewer, by, agent, source, verdict, correction, taken
    ):
        tickets, known = queue(1, gold_share=0.5), DecisionFactory(agent=agent, action="travel")
        said = FeedbackIn(metric="verdict", value=verdict, correction=correction, source=source, decision_id=known.id)
        assert not record_feedback(by=by, items=[(0, said)]).errors
        if not taken:
            with pytest.raises(InvalidInput):
                add_gold(by=by, queue=tickets, subjects=[known.id])
            assert not QueueItem.objects.filter(state="gold").exists()
            return
        assert add_gold(by=by, queue=tickets, subjects=[known.id]) == 1
        assert QueueItem.objects.get(state="gold").gold == {"verdict": verdict, "corrected_action": correction}

    def test_a_decision_without_a_label_cannot_be_gold(self, queue, by):
        tickets = queue(1)
        with pytest.raises(InvalidInput):
            add_gold(by=by, queue=tickets, subjects=[tickets.made[0].id])
        assert not QueueItem.objects.exists()
