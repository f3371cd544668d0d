"""Queues of whole episodes: what they ask about and in which order, and what one verdict on an episode does."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.labelling.queues import QueueSetup, create_queue
from decisions.labelling.reservations import reserve_next
from decisions.labelling.resolution import submit_label, undo_in_queue
from decisions.models import Feedback, Label, QueueItem, Reward
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import (
    DecisionFactory,
    EpisodeFactory,
    FeedbackFactory,
    RewardFactory,
    RewardSpecFactory,
    StepFactory,
)
from workspaces.errors import InvalidInput

pytestmark = pytest.mark.django_db


def asked(by: Any, reviewer: Any, **setup: Any) -> list[Any]:
    """Ids of the episodes that a new queue asks one reviewer about, the first first."""
    queue = create_queue(by=by, slug="mailboxes", setup=QueueSetup(name="Mailboxes", subject="episode", **setup))
    return [place.subject for place in reserve_next(by=reviewer("ann"), queue=queue, count=9).reservations]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, "failing plain named"),
        ({"state": "failed"}, "failing"),
        ({"session": "monday", "agent": "filer"}, "failing plain"),
        ({"q": "mailbox", "since": "1h"}, "named"),
        ({"agent": "nobody"}, ""),
    ],
    ids=str,
)
def test_filters_are_those_of_the_list(by: Any, agent: Any, reviewer: Any, filters: Any, names: str) -> None:
    made = {
        "failing": EpisodeFactory(agent=agent, session="monday"),
        "plain": EpisodeFactory(agent=agent, session="monday"),
        "named": EpisodeFactory(agent=agent, external_id="mailbox"),
        "judged": EpisodeFactory(agent=agent),
        "erased": EpisodeFactory(agent=agent),
        "elsewhere": EpisodeFactory(),
    }
    StepFactory(episode=made["failing"], success=False)
    StepFactory(episode=made["plain"])
    FeedbackFactory(decision=None, episode=made["judged"], workspace=agent.workspace)
    made["erased"].external_id = f"erased:{made['erased'].id}"
    made["erased"].save()
    assert asked(by, reviewer, strategy="sequential", filters=filters) == [made[name].id for name in names.split()]


def test_the_least_certain_decision_says_how_uncertain_an_episode_is(by: Any, agent: Any, reviewer: Any) -> None:
    made = [EpisodeFactory(agent=agent) for _ in range(4)]
    for episode, confidences in zip(made, [(0.5,), (0.9, 0.2), (None,), ()], strict=True):
        for confidence in confidences:
            DecisionFactory(agent=agent, episode=episode, confidence=confidence)
    assert asked(by, reviewer, strategy="uncertainty") == [made[at].id for at in (1, 0, 2, 3)]


def test_the_value_of_an_episode_is_how_far_its_rewards_lie_apart(by: Any, agent: Any, reviewer: Any) -> None:
    made = [EpisodeFactory(agent=agent) for _ in range(4)]
    for episode, rewards in zip(made, [(), (1.0,), (1.0, -0.5), (-0.2, None)], strict=True):
        for raw in rewards:
            decision = DecisionFactory(agent=agent, episode=episode)
            RewardFactory(decision=decision, version=1, raw=-5.0)
            RewardFactory(decision=decision, version=2, raw=raw, value=None if raw is None else 0.5)
    assert asked(by, reviewer, strategy="value") == [made[at].id for at in (2, 1, 3, 0)]


def test_a_verdict_reaches_the_rewards_of_its_decisions_until_it_is_undone(
    by: Any, agent: Any, reviewer: Any, api: Any
) -> None:
    parameters = {"metric": "verdict"}
    RewardSpecFactory(agent=agent, components=[{"name": "episode.outcome", "weight": 1.0, "parameters": parameters}])
    episode = EpisodeFactory(agent=agent)
    decisions = {DecisionFactory(agent=agent, episode=episode).id for _ in range(2)}
    queue = create_queue(by=by, slug="mailboxes", setup=QueueSetup(name="Mailboxes", subject="episode"))
    ann = reviewer("ann")
    held: dict[str, Any] = {"by": ann, "queue": queue, "subject": episode.id}

    def raws() -> list[Any]:
        calculate_rewards(current_reward_spec(agent))
        newest = Reward.objects.order_by("decision_id", "-version").distinct("decision_id")
        return [reward.raw for reward in newest if reward.decision_id in decisions]

    reserve_next(by=ann, queue=queue)
    with pytest.raises(InvalidInput):
        submit_label(**held, verdict="corrected", corrected_action="travel")
    assert not Label.objects.exists() and not Feedback.objects.exists()
    item, label = submit_label(**held, verdict="corrected", note="it stopped half way")
    assert (item.state, label.episode, label.decision_id) == ("resolved", episode, None)
    assert Feedback.objects.get().episode == episode
    said = {"metric": "verdict", "value": "confirmed", "episode_id": str(episode.id)}
    assert api("feedback:write").post("feedback", said).status_code == 201
    assert raws() == [-0.5, -0.5]  # a reviewer outranks an app
    undo_in_queue(**held)
    assert raws() == [1.0, 1.0]
    assert not Label.objects.exists() and QueueItem.objects.get().state == "waiting"
