"""Krippendorff's α against published and hand-made numbers, and a queue's report of its reviewers."""

import datetime as dt

import pytest

from decisions.labelling.agreement import measure_agreement
from decisions.labelling.alpha import nominal_alpha
from decisions.labelling.labels import label_decision
from decisions.labelling.queues import add_gold
from decisions.labelling.reservations import reserve_next
from decisions.labelling.resolution import adjudicate_item, submit_label
from decisions.models import Label
from tools.factories import DecisionFactory

# Krippendorff (2011), section C: observers A to D, units 1 to 12.
PUBLISHED = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def test_the_published_example_gives_its_published_alpha():
    units = [[value for value in unit if value is not None] for unit in zip(*PUBLISHED, strict=True)]
    assert nominal_alpha(units) == pytest.approx(0.743, abs=5e-4)


@pytest.mark.parametrize(
    ("units", "alpha"),
    [
        # o_ab = o_ba = 1, n_a = n_b = 4, n = 8: 1 − 7·2/32
        ([("a", "a"), ("b", "b"), ("a", "b"), ("b", "a")], 1 - 7 * 4 / 32),
        ([("a", "a"), ("b", "b")], 1.0),
        # n_a = n_b = 2, n = 4, all apart: 1 − 3·4/8
        ([("a", "b"), ("a", "b")], -0.5),
        ([("a", "a"), ("b", "b"), ("a",)], 1.0),  # one value alone pairs nothing
        ([("a", "a"), ("a", "a")], None),
        ([("a",), ("b",)], None),
        ([], None),
    ],
)
def test_alpha_by_hand(units, alpha):
    assert nominal_alpha(units) == (None if alpha is None else pytest.approx(alpha))


@pytest.mark.django_db
def test_a_queue_tells_alpha_pairs_accuracy_and_pace(queue, reviewer, by, agent):
    tickets = queue(3, overlap=2, gold_share=0.5)
    boss, ann, bob = reviewer("boss", "admin"), reviewer("ann"), reviewer("bob")
    known = [DecisionFactory(agent=agent, action="travel") for _ in range(2)]
    for decision in known:
        label_decision(by=boss, decision=decision, verdict="confirmed")
    add_gold(by=by, queue=tickets, subjects=[decision.id for decision in known])
    said = {
        ann: ("confirmed", "confirmed", "ignored"),
        bob: ("confirmed", "ignored", "ignored"),
    }
    for who, verdicts in said.items():
        answers = dict(zip((decision.id for decision in tickets.made), verdicts, strict=True))
        answers |= {known[0].id: "confirmed", known[1].id: "confirmed" if who is ann else "ignored"}
        for _ in range(20):
            for place in reserve_next(by=who, queue=tickets).reservations:
                verdict = answers[place.subject]
                submit_label(by=who, queue=tickets, subject=place.subject, verdict=verdict)
    # A resolution is no reviewer's answer.
    adjudicate_item(by=boss, queue=tickets, subject=tickets.made[1].id, verdict="overridden")
    for number, label in enumerate(Label.objects.filter(reviewer=ann.user).order_by("created_at")):
        Label.objects.filter(id=label.id).update(created_at=label.created_at + dt.timedelta(seconds=20 * number))
    found = measure_agreement(tickets)
    # c–c twice, c–i once, i–i once: n_c = 3, n_i = 3, n = 6, so 1 − 5·2/18
    assert (found.items, found.alpha) == (3, pytest.approx(1 - 5 * 2 / 18))
    assert found.verdict_alpha == found.alpha
    [pair] = found.pairs
    assert (pair.reviewers, pair.items, pair.agreed) == (("Ann", "Bob"), 3, pytest.approx(2 / 3))
    assert pair.alpha == pytest.approx(found.alpha)
    told = {one.reviewer: one for one in found.reviewers}
    assert set(told) == {"Ann", "Bob"}
    assert {name: one.gold and one.accuracy for name, one in told.items()} == {"Ann": 1.0, "Bob": 0.5}
    assert told["Ann"].labels == told["Ann"].gold + 3 == 5
    assert told["Ann"].pace == pytest.approx(20, abs=2)
