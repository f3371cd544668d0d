"""The time that an episode takes by its decisions, where no step tells of their model calls."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.queries.episode_shown import tell_episodes
from tools.factories import DecisionFactory, EpisodeFactory, StepFactory

pytestmark = pytest.mark.django_db
START = timezone.now().replace(microsecond=0) - dt.timedelta(minutes=3)


def after(ms: float) -> dt.datetime:
    return START + dt.timedelta(milliseconds=ms)


def chat(episode: Any, *, asked_ms: float, latency_ms: float, **more: Any) -> Any:
    """As the gateway records a chat: observed when it is asked, recorded when it is answered."""
    return DecisionFactory(
        agent=episode.agent, episode=episode, finish_reason="stop", observed_at=after(asked_ms), latency_ms=latency_ms,
        recorded_at=after(asked_ms + latency_ms), **more,
    )  # fmt: skip


@pytest.fixture
def episode(agent: Any) -> Any:
    return EpisodeFactory(agent=agent, started_at=START)


def test_the_time_of_chats_holds_the_last_answer(episode: Any, page_client: Any, viewer: Any) -> None:
    chat(episode, asked_ms=0, latency_ms=179)
    [story] = tell_episodes([episode], most=10)
    assert story.episode.duration_ms == pytest.approx(179) and story.totals.ended_at == after(179)
    content = page_client(viewer).get(reverse("pages:episode", args=[episode.workspace.slug, episode.pk])).content
    assert b"179 ms" in content
    chat(episode, asked_ms=1000, latency_ms=500)
    episode.refresh_from_db()
    [story] = tell_episodes([episode], most=10)
    assert story.episode.duration_ms == pytest.approx(1500) and story.totals.ended_at == after(1500)
    assert [(line.after_ms, line.duration_ms) for line in story.lines] == [(0, 179), (1000, 500)]


@pytest.mark.parametrize("finish_reason", [None, "stop"])
def test_the_time_of_what_was_decided_holds_the_first_answer(episode: Any, finish_reason: str | None) -> None:
    """Such a decision is observed when it has been made."""
    for ms in (0, 1000):
        moment = after(ms)
        DecisionFactory(
            agent=episode.agent, episode=episode, finish_reason=finish_reason, latency_ms=200.0,
            observed_at=moment, recorded_at=moment,
        )  # fmt: skip
    [story] = tell_episodes([episode], most=10)
    assert story.episode.duration_ms == pytest.approx(1200) and story.totals.ended_at == after(1000)
    assert [(line.after_ms, line.duration_ms) for line in story.lines] == [(0, 200), (1000, 200)]


def test_the_step_of_a_model_call_tells_its_time(episode: Any) -> None:
    decision = chat(episode, asked_ms=0, latency_ms=9000)
    StepFactory(episode=episode, kind="llm_call", decision=decision, started_at=START, duration_ms=150.0)
    [story] = tell_episodes([episode], most=10)
    assert story.episode.duration_ms == pytest.approx(150)
