"""Active queues: the auto-labeler's doubt orders what waits, each time that it has learnt."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from decisions.labelling.queues import QueueSetup, create_queue
from decisions.labelling.reservations import discard_place, reserve_next
from decisions.labelling.suggesting import suggest_labels
from decisions.models import AutoLabeler, LabelQueue
from jobs.models import Job
from tools.factories import DecisionFactory, LabelFactory

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
WORDS = {
    "finance": "invoice payment salary budget account transfer refund bank",
    "travel": "flight hotel passport train ticket museum luggage airport",
}
CLEAR, MIXED = "invoice payment bank", "invoice payment flight hotel"


@pytest.fixture
def decide(agent: Any) -> Callable[..., Any]:
    def make(text: str, action: str = "finance", confidence: float | None = None) -> Any:
        state = {"text": text}
        return DecisionFactory(agent=agent, state=state, options=list(WORDS), action=action, confidence=confidence)

    return make


@pytest.fixture
def labelled(decide: Any) -> None:
    """60 labels, of which the words tell the action."""
    rng = random.Random(1)
    for number in range(60):
        topic = list(WORDS)[number % 2]
        LabelFactory(decision=decide(" ".join(rng.sample(WORDS[topic].split(), 3)), topic), verdict="confirmed")


def make_queue(by: Any, **setup: Any) -> LabelQueue:
    return create_queue(by=by, slug="doubts", setup=QueueSetup(name="Doubts", filters={"agent": "filer"}, **setup))


def test_what_the_auto_labeler_doubts_is_asked_first_and_what_is_held_stays(
    agent: Any, by: Any, labelled: None, decide: Any, reviewer: Any
) -> None:
    ann = reviewer("ann")
    mixed = decide(MIXED, confidence=0.95)
    clear = [decide(CLEAR, confidence=0.1 * number) for number in range(1, 4)]
    queue = make_queue(by)
    [held] = reserve_next(by=ann, queue=queue).reservations
    assert held.subject == clear[0].id  # nothing has been learnt: by the model's own confidence
    assert suggest_labels(agent).labels == 60
    now = {place.subject for place in reserve_next(by=ann, queue=queue, count=2).reservations}
    assert now == {clear[0].id, mixed.id}
    discard_place(by=ann, queue=queue, subject=mixed.id)
    assert reserve_next(by=reviewer("bob"), queue=queue).reservations[0].subject == mixed.id


def test_it_finds_decisions_that_nobody_asked_for_yet_and_leaves_other_orders_alone(
    agent: Any, by: Any, labelled: None, decide: Any
) -> None:
    made = [decide(text) for text in (CLEAR, MIXED)]
    queue = make_queue(by)
    other = create_queue(by=by, slug="other", setup=QueueSetup(name="Other", strategy="random"))
    suggest_labels(agent)
    ranks = dict(queue.reservations.values_list("subject", "rank"))
    assert ranks[made[1].id] < ranks[made[0].id]
    assert not other.reservations.exists()


def test_an_active_queue_asks_the_auto_labeler_to_learn_when_labels_are_new(
    agent: Any, by: Any, labelled: None, decide: Any, reviewer: Any
) -> None:
    decide(CLEAR)
    queue, ann = make_queue(by), reviewer("ann")
    AutoLabeler.objects.create(agent=agent, workspace=agent.workspace, trained_at=timezone.now())

    def ask_a_minute_later() -> int:
        LabelQueue.objects.filter(id=queue.id).update(filled_at=timezone.now() - dt.timedelta(minutes=2))
        queue.refresh_from_db()
        for place in reserve_next(by=ann, queue=queue).reservations:
            discard_place(by=ann, queue=queue, subject=place.subject)
        return Job.objects.filter(kind="decisions.suggest_labels").count()

    assert ask_a_minute_later() == 0
    AutoLabeler.objects.update(trained_at=timezone.now() - dt.timedelta(minutes=2))
    assert ask_a_minute_later() == 1
    assert ask_a_minute_later() == 1  # one that waits is enough
