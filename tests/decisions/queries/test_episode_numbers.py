"""What nobody reported of an episode is counted, alike for its page, its lists and the API."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from decisions.models import Episode
from tools.factories import DecisionFactory, EpisodeFactory

pytestmark = pytest.mark.django_db
START = timezone.now().replace(microsecond=0) - dt.timedelta(minutes=3)
NUMBERS = ("llm_calls", "tokens_in", "tokens_out", "cost", "duration_ms", "ended_at")


@pytest.fixture
def episode(agent: Any) -> Any:
    """Of two chats through the gateway, of a unit."""
    row = EpisodeFactory(agent=agent, started_at=START, unit="")
    for seconds, tokens in ((0, (20, 10)), (2, (30, 15))):
        asked = START + dt.timedelta(seconds=seconds)
        DecisionFactory(
            agent=agent, episode=row, unit="ann", finish_reason="stop", tokens_in=tokens[0], tokens_out=tokens[1],
            cost=Decimal("0.5"), observed_at=asked, latency_ms=250.0, recorded_at=asked + dt.timedelta(seconds=0.25),
        )  # fmt: skip
    return row


def test_the_api_and_the_page_count_alike(episode: Any, api: Any, page_client: Any, viewer: Any) -> None:
    client = api()
    [listed], shown = client.get("episodes?unit=ann").json()["results"], client.get(f"episodes/{episode.pk}").json()
    ended = (START + dt.timedelta(seconds=2.25)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    expected = [2, 50, 25, "1.00000000", 2250.0, ended]
    assert [listed[name] for name in NUMBERS] == [shown[name] for name in NUMBERS] == expected
    answer = page_client(viewer).get(reverse("pages:episode", args=[episode.workspace.slug, episode.pk]))
    content = answer.content.decode()
    assert "50 in, 25 out" in content
    on_page = answer.context["episode"]
    assert (on_page.llm_calls, on_page.cost, on_page.duration_ms) == (2, Decimal(1), 2250.0)
    [row] = page_client(viewer).get(reverse("pages:episodes", args=[episode.workspace.slug])).context["rows"]
    assert (row.episode.tokens_in, row.episode.duration_ms) == (50, 2250.0)
    assert Episode.objects.get().llm_calls is None  # nothing of it is stored


def test_what_was_reported_counts_instead(episode: Any, api: Any) -> None:
    Episode.objects.update(llm_calls=7, tokens_in=1, cost=Decimal("0.25"), duration_ms=9.0)
    [listed] = api().get("episodes").json()["results"]
    assert [listed[name] for name in NUMBERS[:5]] == [7, 1, 25, "0.25000000", 9.0]


def test_a_list_counts_in_as_many_queries_however_long(episode: Any, api: Any) -> None:
    client = api()
    client.get("episodes")
    asked = []
    for length in (1, 11):
        while Episode.objects.count() < length:
            DecisionFactory(agent=episode.agent, episode=EpisodeFactory(agent=episode.agent), finish_reason="stop")
        with CaptureQueriesContext(connection) as queries:
            assert len(client.get("episodes").json()["results"]) == length
        asked.append(len(queries))
    assert asked[1] <= asked[0]
