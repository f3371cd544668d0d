"""What an episode of chats through the gateway shows before a trace tells more of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Episode
from decisions.queries.episode_ends import fill_ends
from tools.factories import DecisionFactory, EpisodeFactory, StepFactory

pytestmark = pytest.mark.django_db
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "How do I get to Oslo?"}]},
]
CALLS = [{"name": "weather", "arguments": {"place": "Oslo"}, "id": "call_1"}]


@pytest.fixture
def chats(agent: Any) -> Any:
    """An episode of three chats: words, words and calls, calls alone."""
    row = EpisodeFactory(agent=agent, query="", final_response="", unit="")
    later = [*ASKED, {"role": "assistant", "content": "By train."}, {"role": "user", "content": "And the weather?"}]
    for messages, action, words in (
        (ASKED, "By train.", "By train."),
        (later, CALLS, "Let me look."),
        (later, CALLS, None),
    ):
        DecisionFactory(
            agent=agent, episode=row, state={"messages": messages}, action=action, completion=words, unit="ann",
            finish_reason="stop", tokens_in=10, tokens_out=3,
        )  # fmt: skip
    return row


def test_its_chats_say_what_was_asked_and_answered_and_count(chats: Any, api: Any) -> None:
    client = api()
    shown, [listed] = client.get(f"episodes/{chats.id}").json(), client.get("episodes").json()["results"]
    for one in (shown, listed):
        assert (one["query"], one["final_response"], one["unit"]) == ("How do I get to Oslo?", "Let me look.", "ann")
    counted = {name: shown["totals"][name] for name in ("steps", "llm_calls", "decisions", "tokens_in", "tokens_out")}
    assert counted == {"steps": 3, "llm_calls": 3, "decisions": 3, "tokens_in": 30, "tokens_out": 9}
    stored = Episode.objects.get()
    assert (stored.query, stored.final_response, stored.unit) == ("", "", "")


def test_its_page_shows_them(chats: Any, page_client: Any, viewer: Any) -> None:
    client = page_client(viewer)
    answer = client.get(reverse("pages:episode", args=[chats.workspace.slug, chats.pk]))
    assert "How do I get to Oslo?" in answer.content.decode() and answer.context["episode"].llm_calls == 3
    answer = client.get(reverse("pages:episodes", args=[chats.workspace.slug]))
    assert "How do I get to Oslo?" in answer.content.decode()


def test_what_a_trace_or_a_client_says_counts_instead(chats: Any, api: Any) -> None:
    first = chats.decisions.order_by("id").first()
    StepFactory(episode=chats, kind="llm_call", decision=first, tokens_in=11, tokens_out=4)
    Episode.objects.update(query="Plan!", final_response="Planned.", unit="bob")
    shown = api().get(f"episodes/{chats.id}").json()
    assert (shown["query"], shown["final_response"], shown["unit"]) == ("Plan!", "Planned.", "bob")
    assert (shown["totals"]["steps"], shown["totals"]["llm_calls"], shown["totals"]["tokens_in"]) == (3, 3, 31)


def test_other_decisions_and_what_is_complete_stay(agent: Any, django_assert_num_queries: Any) -> None:
    told = EpisodeFactory(agent=agent, query="a", final_response="b", unit="c")
    with django_assert_num_queries(0):
        fill_ends([told])
    recorded = EpisodeFactory(agent=agent, query="", final_response="", unit="")
    DecisionFactory(agent=agent, episode=recorded, unit="ann", action="travel")
    fill_ends([recorded, told])
    assert (recorded.query, recorded.final_response, recorded.unit, told.query) == ("", "", "", "a")
