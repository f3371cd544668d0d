"""Pages of episodes: what the list finds, and how one episode is told."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory, StepFactory

pytestmark = pytest.mark.django_db
START = timezone.now().replace(microsecond=0) - dt.timedelta(minutes=3)


def after(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


@pytest.fixture
def episode(agent: Any) -> Any:
    """Inside the agent's span a thought, a tool that fails, a model call that decides; a decision stands beside."""
    row = EpisodeFactory(
        agent=agent, query="file the weekend", final_response="three are filed", session="monday", started_at=START
    )
    made = DecisionFactory(agent=agent, episode=row, action="travel", observed_at=after(3), tokens_in=40)
    DecisionFactory(agent=agent, episode=row, action="health", observed_at=after(5))
    common: dict[str, Any] = {"episode": row, "success": None}
    StepFactory(**common, kind="span", name="concierge", external_id="a", started_at=START, duration_ms=4000.0)
    StepFactory(**common, kind="reasoning", name="", content="two are invoices", parent="a", started_at=after(0.5))
    StepFactory(**{**common, "success": False}, name="open_note", error="it is locked", parent="a", external_id="b",
                started_at=after(1), duration_ms=1000.0)  # fmt: skip
    StepFactory(**common, kind="llm_call", name="chat", parent="a", decision=made, result="travel", tokens_in=40,
                started_at=after(2), duration_ms=1000.0)  # fmt: skip
    StepFactory(**common, name="lost", parent="never sent", started_at=after(3.5))
    FeedbackFactory(decision=None, workspace=row.workspace, episode=row, metric="solved", value=1, source="llm")
    return row


def page(name: str, row: Any, *args: Any) -> str:
    return reverse(f"pages:{name}", args=[row.workspace.slug, *args])


def lines(content: str) -> list[tuple[str, int]]:
    """Titles and depths of the story, in order."""
    found = re.findall(r'class="line depth-(\d).*?class="line-title">(.*?)</span>', content, re.DOTALL)
    return [(re.sub(r"<[^>]+>", "", title), int(depth)) for depth, title in found]


def test_an_episode_is_told_in_order_and_nested(page_client: Any, viewer: Any, episode: Any) -> None:
    answer = page_client(viewer).get(page("episode", episode, episode.pk))
    assert answer.status_code == 200
    content = answer.content.decode()
    assert lines(content) == [
        ("concierge", 0),
        ("Reasoning", 1),
        ("open_note", 1),
        ("chat", 1),
        ("lost", 0),
        ("Filer decided", 0),
    ]
    for said in (
        "file the weekend",
        "three are filed",
        "it is locked",
        "two are invoices",
        "One step failed",
        "solved",
    ):
        assert said in content
    decisions = {str(pk) for pk in episode.decisions.values_list("id", flat=True)}
    assert {pk for pk in decisions if f"/decisions/{pk}" in content} == decisions


def test_parents_in_a_circle_are_told_once(page_client: Any, viewer: Any, agent: Any) -> None:
    row = EpisodeFactory(agent=agent)
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        StepFactory(episode=row, name=name, external_id=name, parent=parent, started_at=START)
    content = page_client(viewer).get(page("episode", row, row.pk)).content.decode()
    assert sorted(title for title, _ in lines(content)) == ["a", "b", "c", "self"]


def test_an_episode_without_anything_says_so(page_client: Any, viewer: Any, agent: Any) -> None:
    row = EpisodeFactory(agent=agent)
    assert b"No steps have been recorded yet." in page_client(viewer).get(page("episode", row, row.pk)).content


def test_a_time_that_no_clock_holds_is_refused_and_what_is_there_already_is_shown(
    page_client: Any, viewer: Any, agent: Any, api: Any
) -> None:
    step = {"kind": "span", "agent": "filer", "episode": "e", "duration_ms": 1e308}
    decision = {"agent": "filer", "state": {}, "action": "travel", "policy_name": "x", "latency_ms": 1e13}
    for path, sent, field in (("steps", step, "duration_ms"), ("decisions", decision, "latency_ms")):
        answer = api().post(path, sent)
        assert (answer.status_code, answer.json()["error"]["fields"][0]["field"]) == (400, field)
    assert api().post("episodes", {"agent": "filer", "episode": "e", "duration_ms": 1e300}).status_code == 400
    row = EpisodeFactory(agent=agent)
    StepFactory(episode=row, duration_ms=1e308)
    for episode in (row, EpisodeFactory(agent=agent, duration_ms=1e308)):
        assert page_client(viewer).get(page("episode", episode, episode.pk)).status_code == 200
        assert api().get(f"episodes/{episode.pk}").status_code == 200
    assert page_client(viewer).get(page("episodes", row)).status_code == 200


def test_what_agents_said_is_text(page_client: Any, viewer: Any, agent: Any) -> None:
    hostile = "<script>alert(1)</script>"
    row = EpisodeFactory(agent=agent, query=hostile, final_response=hostile, session=hostile, external_id=hostile)
    StepFactory(episode=row, name=hostile, error=hostile, success=False, arguments={hostile: hostile}, result=hostile)
    StepFactory(episode=row, kind="reasoning", content=hostile, reasoning_type=hostile[:60], insights=[hostile])
    client = page_client(viewer)
    for url in (page("episode", row, row.pk), page("episodes", row)):
        assert hostile not in client.get(url).content.decode()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("agent=filer", True),
        ("agent=nobody", False),
        ("session=monday", True),
        ("session=tuesday", False),
        ("state=failed", True),
        ("since=1h", True),
        ("q=nothing", False),
    ],
)
def test_the_list_is_narrowed(page_client: Any, viewer: Any, episode: Any, query: str, found: bool) -> None:
    EpisodeFactory(agent__workspace=episode.workspace, query="another one")
    content = page_client(viewer).get(f"{page('episodes', episode)}?{query}").content.decode()
    assert ("file the weekend" in content) is found
    assert ("another one" in content) is (query in ("", "since=1h"))


def test_an_episode_is_found_by_what_names_it(page_client: Any, viewer: Any, agent: Any) -> None:
    row = EpisodeFactory(agent=agent, query="this one", trace="ab" * 16, unit="ann", external_id="mailbox-7")
    client = page_client(viewer)
    for name in (str(row.id), "mailbox-7", "AB" * 16, f"trace:{row.trace}", "ann"):
        assert b"this one" in client.get(page("episodes", row), {"q": name}).content, name


@pytest.mark.parametrize("query", ["state=odd", "since=ever", "before=7", "q=a%00b"])
def test_a_filter_that_makes_no_sense_is_refused(page_client: Any, viewer: Any, episode: Any, query: str) -> None:
    assert page_client(viewer).get(f"{page('episodes', episode)}?{query}").status_code == 400


def test_the_list_goes_on_page_by_page(page_client: Any, viewer: Any, agent: Any) -> None:
    for number in range(27):
        row = EpisodeFactory(agent=agent, query=f"query {number:02}")
    client, url, seen = page_client(viewer), page("episodes", row), []
    while url:
        content = client.get(url).content.decode()
        seen += re.findall(r"query \d\d", content)
        older = re.search(r'href="([^"]+)"[^>]*rel="next"', content)
        url = older.group(1).replace("&amp;", "&") if older else ""
    assert seen == [f"query {number:02}" for number in reversed(range(27))]


def test_another_workspace_s_episode_is_not_there(page_client: Any, outsider: Any, viewer: Any, episode: Any) -> None:
    theirs = EpisodeFactory(query="theirs")
    assert page_client(outsider).get(page("episode", episode, episode.pk)).status_code == 404
    assert page_client(viewer).get(page("episode", episode, theirs.pk)).status_code == 404
    assert b"theirs" not in page_client(viewer).get(page("episodes", episode)).content


def test_the_number_of_queries_does_not_grow(
    page_client: Any, viewer: Any, episode: Any, django_assert_max_num_queries: Any
) -> None:
    client = page_client(viewer)
    for number in range(20):
        row = EpisodeFactory(agent=episode.agent)
        StepFactory(episode=row)
        StepFactory(episode=episode, name=f"n{number}", decision=DecisionFactory(agent=episode.agent, episode=episode))
    with django_assert_max_num_queries(12):
        client.get(page("episodes", episode))
    with django_assert_max_num_queries(14):
        client.get(page("episode", episode, episode.pk))
