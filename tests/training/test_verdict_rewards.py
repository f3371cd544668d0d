"""What a spec gives to a decision of which only the verdict is known, for every kind of the notes app's agents."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from decisions.rewards.specs import current_reward_spec
from training.rows.reward_scale import reward_if

pytestmark = pytest.mark.django_db


def test_a_right_action_is_worth_more_than_a_wrong_one_for_every_kind(by: Any) -> None:
    create_notes_agents(by=by)
    rewards = {
        agent.kind: {verdict: reward_if(current_reward_spec(agent), verdict) for verdict in ("confirmed", "corrected")}
        for agent in Agent.objects.filter(workspace=by.workspace)
    }
    assert set(rewards) == {"FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER"}
    for kind, values in rewards.items():
        assert values["confirmed"] > values["corrected"], kind


def test_the_rewards_of_prioritizer_and_retriever_are_those_of_their_acceptance(by: Any) -> None:
    create_notes_agents(by=by)
    verdicts = ("confirmed", "corrected", "overridden", "ignored")
    values = {
        kind: [reward_if(current_reward_spec(Agent.objects.get(kind=kind)), verdict) for verdict in verdicts]
        for kind in ("PRIORITIZER", "RETRIEVER")
    }
    assert values["PRIORITIZER"] == pytest.approx([0.75, 0.375, 0.3, 0.5])
    assert values["RETRIEVER"] == pytest.approx([0.75, 0.25, 0.25, 0.5])
