"""Lists of one unit's decisions: complete and in order over all spans of time, and planned by the index for names."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from decisions.models import Decision
from decisions.queries.by_name import FIRST, HOUR, LAST, SPANS, find_named
from decisions.queries.decision_list import find_page_of_names
from tools.factories import AgentFactory, DecisionFactory, EpisodeFactory, uuid7_at
from workspaces.storage.ids import uuid7_bound

pytestmark = pytest.mark.django_db
DAYS = (0, 0.5, 1, 1.9, 2, 2.1, 15, 16, 17, 100, 127, 129, 300, 390)


@pytest.fixture
def made(agent: Any, workspace: Any, other_workspace: Any) -> list[uuid.UUID]:
    """Ids of Ada's decisions, newest first; Eve's and another workspace's lie between them."""
    now = timezone.now()
    librarian = AgentFactory(workspace=workspace, slug="librarian")
    foreign = AgentFactory(workspace=other_workspace)
    ids = []
    for number, days in enumerate(DAYS):
        moment = now - dt.timedelta(days=days)
        of = librarian if number % 3 == 2 else agent
        ids.append(DecisionFactory(agent=of, id=uuid7_at(moment), unit="Ada").id)
        DecisionFactory(agent=agent, id=uuid7_at(moment), unit="Eve")
        DecisionFactory(agent=foreign, id=uuid7_at(moment), unit="Ada")
    return sorted(ids, reverse=True)


def page_of_ada(workspace: Any, *, after: uuid.UUID, newer: bool = False, most: int) -> list[uuid.UUID]:
    between = (after, LAST) if newer else (FIRST, after)
    return list(find_page_of_names(workspace, {"unit": "Ada"}, between=between, newer=newer, most=most) or ())


def follow(client: Any, path: str, link: str) -> list[list[str]]:
    """The pages from `path` on, along the links of that name."""
    pages = []
    while path:
        answer = client.get(path)
        assert answer.status_code == 200
        found = answer.json()
        pages.append([row["id"] for row in found["results"]])
        parts = urlsplit(found[link] or "")
        path = f"{parts.path}?{parts.query}" if found[link] else ""
    return pages


def test_a_units_list_is_complete_along_its_cursors_in_both_directions(api: Any, made: list[uuid.UUID]) -> None:
    client = api()
    pages = follow(client, "/api/v1/decisions?unit=Ada&limit=4", "next")
    assert [one for page in pages for one in page] == [str(pk) for pk in made]
    last = client.get("/api/v1/decisions?unit=Ada&limit=4").json()
    while last["next"]:
        last = client.get(urlsplit(last["next"])._replace(scheme="", netloc="").geturl()).json()
    back = follow(client, urlsplit(last["previous"])._replace(scheme="", netloc="").geturl(), "previous")
    assert back == pages[-2::-1]
    assert follow(client, "/api/v1/decisions?unit=nobody", "next") == [[]]


def test_agent_item_and_unit_narrow_together(api: Any, agent: Any, made: list[uuid.UUID]) -> None:
    client = api()
    own = [str(pk) for pk in made if Decision.objects.get(id=pk).agent_id == agent.id]
    assert 0 < len(own) < len(made)
    pages = follow(client, "/api/v1/decisions?unit=Ada&agent=filer&limit=3", "next")
    assert [one for page in pages for one in page] == own
    assert client.get("decisions?unit=Ada&agent=nobody").status_code == 400
    with_item = DecisionFactory(agent=agent, unit="Ada", item_ref="note-7")
    DecisionFactory(agent=agent, unit="Eve", item_ref="note-7")
    assert follow(client, "/api/v1/decisions?unit=Ada&item=note-7", "next") == [[str(with_item.id)]]


def test_the_ends_of_spans_are_found_once(agent: Any, workspace: Any) -> None:
    """Ids on, just below and just above each end of a span that begins at an id."""
    high = uuid7_bound(timezone.now())
    ends = [high.int - (hours * HOUR << 80) for hours in SPANS]
    ids = [uuid.UUID(int=end + step) for end in ends for step in (-2, -1, 0, 1)]
    for pk in ids:
        DecisionFactory(agent=agent, id=pk, unit="Ada")
    newest_first = sorted(ids, reverse=True)
    assert find_named(workspace, "Ada", between=(FIRST, high), most=100) == newest_first
    low = uuid.UUID(int=min(one.int for one in ids) - 1)
    assert find_named(workspace, "Ada", between=(low, high), ascending=True, most=100) == newest_first[::-1]
    assert find_named(workspace, "Ada", between=(newest_first[-1], newest_first[0]), most=100) == newest_first[1:-1]
    assert page_of_ada(workspace, after=newest_first[3], most=2) == newest_first[4:6]
    assert page_of_ada(workspace, after=newest_first[3], newer=True, most=2) == newest_first[2:0:-1]


@pytest.mark.parametrize("strange", [LAST, FIRST, uuid.UUID("ffffffff-ffff-7fff-bfff-ffffffffffff"), uuid.uuid4()])
def test_a_cursor_of_no_time_finds_what_lies_beyond_it(
    strange: uuid.UUID, workspace: Any, made: list[uuid.UUID]
) -> None:
    assert page_of_ada(workspace, after=strange, most=100) == [pk for pk in made if pk < strange]
    newer = [pk for pk in made[::-1] if pk > strange]
    assert page_of_ada(workspace, after=strange, newer=True, most=100) == newer


MANY = """
INSERT INTO decisions_decision (id, workspace_id, agent_id, agent_version_id, unit, external_id, state, action,
                                policy_name, observed_at, recorded_at, content_hash)
SELECT (left(d.id::text, 15) || to_char(i %% 1000, 'FM000') || right(d.id::text, 18))::uuid, d.workspace_id, d.agent_id,
       d.agent_version_id, 'unit-' || i, 'order-' || i, d.state, d.action, d.policy_name, d.observed_at, d.recorded_at,
       d.content_hash
  FROM decisions_decision d CROSS JOIN generate_series(1, 999) i WHERE d.id = ANY(%s)
"""


def test_names_are_looked_for_in_their_index_by_a_few_statements(
    workspace: Any, agent: Any, django_assert_max_num_queries: Any
) -> None:
    then = timezone.now() - dt.timedelta(days=2)  # in the second span: the first is read as it is
    ids = [uuid.UUID(int=uuid7_bound(then - dt.timedelta(minutes=n)).int | 7 << 76 | 2 << 62) for n in range(5)]
    for pk in ids:
        DecisionFactory(agent=agent, id=pk, state={"text": "x" * 500})
    plans: list[str] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT DISTINCT"):
            execute(f"EXPLAIN (FORMAT JSON) {sql}", params, many, context)
            plans.append(json.dumps(context["cursor"].fetchone()))
        return execute(sql, params, many, context)

    with connection.cursor() as cursor:
        cursor.execute(MANY, [ids])
        cursor.execute("ANALYZE decisions_decision")
        with django_assert_max_num_queries(9):
            assert len(find_named(workspace, "unit-17", most=100)) == 5
        with connection.execute_wrapper(explain):
            assert len(find_named(workspace, "order-17", most=100)) == 5
        assert len(plans) == len(SPANS) + 1
        assert "_id_unit_external_id_idx" in plans[1]
        cursor.execute("SELECT current_setting('enable_seqscan')")
        assert cursor.fetchone() == ("on",)  # nothing is left of it in the transaction around it
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'decision_named'")
        [definition] = cursor.fetchone()
    assert "USING brin" in definition and "text_bloom_ops" in definition and "autosummarize" in definition


def test_an_agents_list_does_not_join_by_its_slug(api: Any, agent: Any) -> None:
    DecisionFactory(agent=agent)
    seen: list[str] = []

    def keep(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    client = api()
    with connection.execute_wrapper(keep):
        assert len(client.get("decisions?agent=filer").json()["results"]) == 1
        client.get("episodes?agent=filer")
    lists = [sql for sql in seen if 'FROM "decisions_decision"' in sql or 'FROM "decisions_episode"' in sql]
    assert len(lists) == 2 and all('"slug" =' not in sql and '"agent_id" =' in sql for sql in lists)


def test_an_episode_is_found_by_the_unit_that_was_sent_with_its_decisions(
    api: Any, agent: Any, viewer: Any, page_client: Any, other_workspace: Any
) -> None:
    """As chats through the gateway have it: nobody told the unit of the episode."""
    chat, told, theirs = (EpisodeFactory(agent=agent, unit=unit, trace=None) for unit in ("", "Eve", "Ada"))
    for episode in (chat, chat, told):
        DecisionFactory(agent=agent, unit="Ada", episode=episode)
    DecisionFactory(agent=agent, unit="Ada")
    foreign = AgentFactory(workspace=other_workspace)
    DecisionFactory(agent=foreign, unit="Ada", episode=EpisodeFactory(agent=foreign, unit="", trace=None))
    expected = [str(one.id) for one in (theirs, chat)]  # of Eve's episode somebody said otherwise
    assert follow(api(), "/api/v1/episodes?unit=Ada&limit=1", "next") == [[one] for one in expected]
    for name in ("q", "unit"):
        page = page_client(viewer).get(reverse("pages:episodes", args=[agent.workspace.slug]), {name: "Ada"})
        assert [str(row.episode.id) for row in page.context["rows"]] == expected
    assert '<span class="muted">Unit</span>' in page.content.decode()
    assert follow(api(), "/api/v1/episodes?unit=ada", "next") == [[]]


def test_names_of_traces_and_sessions_find_what_was_sent_with_them(api: Any, agent: Any, viewer: Any) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    episode = EpisodeFactory(agent=agent, trace=trace, external_id="", session="monday")
    of_it = [DecisionFactory(agent=agent, episode=episode, unit=unit) for unit in ("Ada", "Eve")]
    DecisionFactory(agent=agent, episode=EpisodeFactory(agent=agent, session="tuesday", trace=None))
    assert follow(api(), f"/api/v1/episodes?external_id=trace:{trace}", "next") == [[str(episode.id)]]
    assert follow(api(), "/api/v1/decisions?session=monday&limit=1", "next") == [[str(of_it[1].id)], [str(of_it[0].id)]]
    assert follow(api(), "/api/v1/decisions?session=monday&unit=Ada", "next") == [[str(of_it[0].id)]]
    assert follow(api(), f"/api/v1/decisions?session=tuesday&episode={episode.id}", "next") == [[]]
    assert follow(api(), "/api/v1/decisions?session=never", "next") == [[]]
