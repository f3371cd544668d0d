"""Places in queues: who gets which decision, for how long, and what skipping and undoing do."""

import datetime as dt
from collections import Counter
from itertools import count

import pytest
from django.utils import timezone

from decisions.labelling.queues import QueueSetup, change_queue, create_queue
from decisions.labelling.ranking import Candidate, rank_candidates
from decisions.labelling.reservations import discard_place, reserve_next, save_draft, skip_item
from decisions.labelling.resolution import submit_label, undo_in_queue
from decisions.models import Feedback, Label, LabelQueue, QueueItem, Reservation
from tools.factories import DecisionFactory, uuid7, uuid7_at
from workspaces.errors import Conflict, InvalidInput, NotAllowed

BOTH = pytest.mark.parametrize("subject", ["decision", "episode"])


def next_of(by, queue):
    held = reserve_next(by=by, queue=LabelQueue.objects.get(id=queue.id)).reservations
    return held[0].subject if held else None


@pytest.mark.django_db
class TestNext:
    @BOTH
    def test_the_most_uncertain_first_and_what_is_held_stays(self, queue, reviewer):
        tickets = queue(3)
        ann, bob = reviewer("ann"), reviewer("bob")
        assert [next_of(ann, tickets), next_of(ann, tickets)] == [tickets.made[0].id] * 2
        assert next_of(bob, tickets) == tickets.made[1].id
        held = reserve_next(by=bob, queue=tickets, count=5).reservations
        assert [place.subject for place in held] == [tickets.made[1].id, tickets.made[2].id]
        assert next_of(reviewer("cem"), tickets) is None

    def test_the_next_one_takes_few_statements_however_many_others_hold_or_are_labelled(
        self, queue, reviewer, django_assert_max_num_queries
    ):
        tickets, ann, bob = queue(12), reviewer("ann"), reviewer("bob")
        for _ in range(3):
            submit_label(by=ann, queue=tickets, subject=next_of(ann, tickets), verdict="confirmed")
        reserve_next(by=bob, queue=tickets, count=5)
        with django_assert_max_num_queries(6):  # two of them make the transaction
            [place] = reserve_next(by=ann, queue=tickets).reservations
        assert (place.subject, place.holder) == (tickets.made[8].id, str(ann.user.pk))
        assert place.expires_at > timezone.now() and place.draft is None

    @BOTH
    def test_sequential_is_oldest_first_and_goes_on_with_new_ones(self, queue, reviewer, make_one, monkeypatch):
        monkeypatch.setattr("decisions.labelling.filling.LOOK", 2)
        tickets = queue(0, strategy="sequential", filters={"agent": "filer"})
        old = [make_one(id=uuid7_at(timezone.now() - dt.timedelta(days=9 - n))) for n in range(5)]
        ann, seen = reviewer("ann"), []
        for _ in range(6):
            if (decision := next_of(ann, tickets)) is None:
                old.append(make_one())
                decision = next_of(ann, tickets)
            seen.append(decision)
            submit_label(by=ann, queue=tickets, subject=decision, verdict="confirmed")
        assert seen == [decision.id for decision in old]

    @BOTH
    def test_every_decision_is_found_by_looks_of_a_few(self, queue, reviewer, monkeypatch):
        monkeypatch.setattr("decisions.labelling.filling.LOOK", 2)
        tickets = queue(9, strategy="random")
        held = reserve_next(by=reviewer("ann"), queue=tickets, count=9).reservations
        assert {place.subject for place in held} == {decision.id for decision in tickets.made}

    @pytest.mark.parametrize("strategy", ["uncertainty", "sequential"])
    def test_what_arrives_late_with_an_old_id_is_asked(self, queue, reviewer, agent, monkeypatch, strategy):
        monkeypatch.setattr("decisions.labelling.filling.LOOK", 2)
        now, ann = timezone.now(), reviewer("ann")
        tickets = queue(0, strategy=strategy, filters={"agent": "filer"})

        def arrives(days, **fields):
            return DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=days)), **fields)

        there = [arrives(days, recorded_at=now - dt.timedelta(days=days)) for days in (9, 1)]
        label = {"by": ann, "queue": tickets, "verdict": "confirmed"}
        for _ in there:
            submit_label(subject=next_of(ann, tickets), **label)
        assert next_of(ann, tickets) is None
        late = [arrives(days) for days in (2, 8, 3, 7, 10)]
        asked = set()
        while (decision := next_of(ann, tickets)) is not None:
            asked.add(decision)
            submit_label(subject=decision, **label)
        assert asked == {decision.id for decision in late}
        assert QueueItem.objects.count() == 7

    def test_what_has_a_verdict_or_another_agent_is_not_asked(self, queue, reviewer, judged):
        judged("confirmed")
        DecisionFactory(agent__workspace=reviewer("zoe").workspace)
        tickets = queue(1, filters={"agent": "filer"})
        assert len(reserve_next(by=reviewer("ann"), queue=tickets, count=5).reservations) == 1

    @BOTH
    def test_an_expired_place_is_taken_over_and_its_label_refused(self, queue, reviewer):
        tickets = queue(1, hold_seconds=60)
        ann, bob = reviewer("ann"), reviewer("bob")
        decision = next_of(ann, tickets)
        Reservation.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))
        assert next_of(bob, tickets) == decision
        with pytest.raises(Conflict):
            submit_label(by=ann, queue=tickets, subject=decision, verdict="confirmed")
        assert not Label.objects.exists() and not Feedback.objects.exists()
        submit_label(by=bob, queue=tickets, subject=decision, verdict="confirmed")
        assert Label.objects.get().reviewer == bob.user

    def test_named_people_and_open_queues_only(self, queue, reviewer, by):
        ann, bob = reviewer("ann"), reviewer("bob", "admin")
        tickets = queue(2, reviewers=["ann@example.org"])
        decision = next_of(ann, tickets)
        for actor in (bob, by):
            with pytest.raises(NotAllowed):
                next_of(actor, tickets)
        closed = change_queue(by=by, queue=tickets, state="closed")
        for refused in (
            lambda: next_of(ann, closed),
            lambda: submit_label(by=ann, queue=closed, subject=decision, verdict="confirmed"),
        ):
            with pytest.raises(Conflict):
                refused()
        assert Reservation.objects.exclude(holder="").count() == 1 and not Label.objects.exists()


@pytest.mark.django_db
class TestGivingBack:
    @BOTH
    def test_a_draft_stays_with_its_place_and_goes_with_it(self, queue, reviewer):
        tickets, ann = queue(1), reviewer("ann")
        decision = next_of(ann, tickets)
        save_draft(by=ann, queue=tickets, subject=decision, draft={"note": "hm"})
        assert reserve_next(by=ann, queue=tickets).reservations[0].draft == {"note": "hm"}
        discard_place(by=ann, queue=tickets, subject=decision)
        assert Reservation.objects.get().holder == ""
        assert next_of(reviewer("bob"), tickets) == decision
        with pytest.raises(Conflict):
            save_draft(by=ann, queue=tickets, subject=decision, draft={})

    @BOTH
    @pytest.mark.parametrize(("policy", "others"), [("ask_others", True), ("drop", False)])
    def test_a_skip_is_no_verdict_and_the_policy_says_who_is_asked(self, queue, reviewer, policy, others):
        tickets, ann, bob = queue(1, skip_policy=policy), reviewer("ann"), reviewer("bob")
        decision = next_of(ann, tickets)
        skip_item(by=ann, queue=tickets, subject=decision)
        assert next_of(ann, tickets) is None
        assert next_of(bob, tickets) == (decision if others else None)
        assert not Label.objects.exists() and not Feedback.objects.exists()
        if others:
            discard_place(by=bob, queue=tickets, subject=decision)
        undo_in_queue(by=ann, queue=tickets, subject=decision)
        assert next_of(ann, tickets) == decision

    @BOTH
    def test_undo_takes_the_label_and_its_feedback_back(self, queue, reviewer):
        tickets, ann = queue(1), reviewer("ann")
        decision = next_of(ann, tickets)
        submit_label(by=ann, queue=tickets, subject=decision, verdict="confirmed")
        undo_in_queue(by=ann, queue=tickets, subject=decision)
        assert not Label.objects.exists()
        assert list(Feedback.objects.order_by("id").values_list("metric", flat=True)) == [
            "verdict",
            "verdict_withdrawn",
        ]
        assert next_of(ann, tickets) == decision
        with pytest.raises(Conflict):
            undo_in_queue(by=reviewer("bob"), queue=tickets, subject=decision)


@pytest.mark.django_db
class TestMaking:
    def test_every_fault_is_gathered_and_nothing_made(self, by):
        wrong = QueueSetup(
            name="x",
            filters={"verdict": "liked", "colour": "red"},
            strategy="vibes",
            overlap=6,
            gold_share=0.9,
            reviewers=["nobody@example.org"],
        )
        with pytest.raises(InvalidInput) as refused:
            create_queue(by=by, slug="x", setup=wrong)
        fields = {fault.field for fault in refused.value.faults}
        assert fields == {"filters", "filters.verdict", "strategy", "overlap", "gold_share", "reviewers"}
        assert not LabelQueue.objects.exists()

    def test_a_slug_is_there_once(self, by):
        create_queue(by=by, slug="x", setup=QueueSetup(name="x"))
        with pytest.raises(Conflict):
            create_queue(by=by, slug="x", setup=QueueSetup(name="y"))
        assert LabelQueue.objects.get().name == "x"


def test_value_asks_cells_in_turn_and_uncertainty_does_not():
    agent = uuid7()
    found = [
        Candidate(uuid7(), confidence, (agent, action))
        for action, confidence in (("a", 0.1), ("a", 0.2), ("b", 0.5), ("c", 0.1), ("b", None))
    ]
    ranks = rank_candidates("value", found, labelled={(agent, "c"): 8}, salt=agent)
    assert ranks == pytest.approx([-0.9, -0.8 / 2, -0.5, -0.9 / 9, 0.0])
    assert rank_candidates("uncertainty", found, labelled={}, salt=agent) == [0.1, 0.2, 0.5, 0.1, 2.0]
    random = rank_candidates("random", found, labelled={}, salt=agent)
    assert random == rank_candidates("random", found, labelled={}, salt=agent) and len(set(random)) == 5


def test_diversity_asks_groups_of_alike_texts_in_turn_each_from_its_most_uncertain_on():
    texts = ["book a flight to Oslo", "a flight to Rome", "book flight", "pay my bill", "pay the bill now", "", "?!"]
    sure = [0.3, 0.1, 0.2, 0.5, 0.6, None, 0.9]
    salt = uuid7()
    found = [Candidate(uuid7(), one, (salt, "a"), text) for one, text in zip(sure, texts, strict=True)]
    ranks = rank_candidates("diversity", found, labelled={}, salt=salt)
    asked = sorted(range(7), key=ranks.__getitem__)
    assert asked == [1, 3, 6, 2, 4, 5, 0]
    assert ranks == rank_candidates("diversity", found, labelled={}, salt=salt)
    twins = [Candidate(uuid7(), 0.5, (salt, "a"), "the same") for _ in range(9)]
    orders = [rank_candidates("diversity", twins, labelled={}, salt=one) for one in (salt, uuid7())]
    assert all(sorted(order) == [*map(float, range(9))] for order in orders) and orders[0] != orders[1]
    assert rank_candidates("diversity", [], labelled={}, salt=salt) == []


@pytest.mark.django_db
def test_a_diverse_queue_reads_the_texts_of_states(queue, reviewer, agent):
    bills = [DecisionFactory(agent=agent, confidence=0.1 * n, state={"text": f"pay bill {n}"}) for n in range(1, 4)]
    trip = DecisionFactory(agent=agent, confidence=0.9, state={"text": "a flight to Oslo", "more": [1, None]})
    held = reserve_next(by=reviewer("ann"), queue=queue(0, strategy="diversity"), count=4).reservations
    assert [place.subject for place in held] == [one.id for one in (bills[0], trip, bills[1], bills[2])]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("subject", "overlap"), [("decision", 1), ("decision", 2), ("episode", 2)])
@pytest.mark.quick_cases(1)
def test_reviewers_at_once_never_collide_and_every_decision_gets_its_overlap(queue, reviewer, at_once, overlap):
    tickets = queue(12, overlap=overlap)
    people = [reviewer(f"person{number}") for number in range(4)]
    turn = count()

    def label_everything():
        me, mine = people[next(turn)], []
        while (decision := next_of(me, tickets)) is not None:
            submit_label(by=me, queue=tickets, subject=decision, verdict="confirmed")
            mine.append(decision)
        return mine

    answers = at_once(4, label_everything)
    assert all(len(mine) == len(set(mine)) for mine in answers)
    asked = Counter(decision for mine in answers for decision in mine)
    assert asked == {decision.id: overlap for decision in tickets.made}
    assert set(QueueItem.objects.values_list("state", flat=True)) == {"resolved"}
    assert Feedback.objects.count() == 12 and Label.objects.count() == 12 * overlap


@pytest.mark.django_db(transaction=True)
def test_one_reviewer_in_two_tabs_holds_one_place_of_a_decision(queue, reviewer, at_once):
    tickets, ann = queue(2, overlap=3), reviewer("ann")
    assert len({tuple(at_once(2, lambda: next_of(ann, tickets)))}) == 1
    assert Reservation.objects.exclude(holder="").count() == 1
