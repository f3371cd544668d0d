"""The tools that an episode's chats called: how many, and how its page says them."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from tools.factories import AgentFactory, AgentVersionFactory, DecisionFactory, EpisodeFactory, StepFactory

pytestmark = pytest.mark.django_db
CALLS = [
    {"id": "call_1", "name": "get_weather", "arguments": {"city": "Oslo"}},
    {"id": "call_2", "name": "get_weather", "arguments": {"city": "Bergen"}},
]


@pytest.fixture
def episode(workspace: Any) -> Any:
    """One chat that called two tools, and one that said something."""
    agent = AgentFactory(workspace=workspace, slug="talker")
    version = AgentVersionFactory(agent=agent, action_space="tool_calls", options=None)
    row = EpisodeFactory(agent=agent)
    for action in (CALLS, "It rains."):
        DecisionFactory(
            agent=agent, agent_version=version, episode=row, action=action, options=None, finish_reason="stop"
        )
    return row


def test_calls_of_chats_count_and_are_said_as_in_the_list_of_decisions(
    episode: Any, api: Any, page_client: Any, viewer: Any
) -> None:
    assert api().get(f"episodes/{episode.pk}").json()["totals"]["tool_calls"] == 2
    answer = page_client(viewer).get(reverse("pages:episode", args=[episode.workspace.slug, episode.pk]))
    story = answer.context["story"]
    assert story.totals.tool_calls == 2
    assert [line.says for line in story.lines] == ["get_weather(city: Oslo), get_weather(city: Bergen)", "It rains."]


def test_a_call_that_is_a_step_too_counts_once(episode: Any, api: Any) -> None:
    StepFactory(episode=episode, kind="tool_call", name="get_weather")
    assert api().get(f"episodes/{episode.pk}").json()["totals"]["tool_calls"] == 2
    for _ in range(2):
        StepFactory(episode=episode, kind="tool_call", name="get_weather")
    assert api().get(f"episodes/{episode.pk}").json()["totals"]["tool_calls"] == 3
