"""The API's lists of feedback and of rewards: their filters, cursors, fields and statements."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from decisions.rewards.specs import current_reward_spec
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    EpisodeFactory,
    FeedbackFactory,
    RewardFactory,
    RewardSpecFactory,
    uuid7_at,
)

pytestmark = pytest.mark.django_db


def listed(api: Any, path: str, *, of: str = "id") -> list[str]:
    """Along the cursors, three rows a page."""
    found, query = [], f"/api/v1/{path}{'&' if '?' in path else '?'}limit=3"
    client = api("export:read")
    while query:
        answer = client.get(query)
        assert answer.status_code == 200, answer.content
        found += [row[of] for row in answer.json()["results"]]
        query = (answer.json()["next"] or "").removeprefix("http://testserver")
    return found


@pytest.fixture
def helper(workspace: Any) -> Any:
    agent = AgentFactory(workspace=workspace, slug="helper")
    AgentVersionFactory(agent=agent)
    return agent


class TestFeedback:
    @pytest.fixture
    def said(self, agent: Any, helper: Any, other_workspace: Any) -> dict[str, str]:
        """Feedback by what it is on; elsewhere there is more."""
        episode = EpisodeFactory(agent=agent)
        first, second = DecisionFactory(agent=agent, episode=episode), DecisionFactory(agent=agent)
        unit = {"decision": None, "unit": "ann", "workspace": agent.workspace}
        of_episode = {"decision": None, "episode": episode, "workspace": agent.workspace}
        foreign = AgentFactory(workspace=other_workspace)
        AgentVersionFactory(agent=foreign)
        FeedbackFactory(decision=DecisionFactory(agent=foreign))
        made = {
            "first": FeedbackFactory(decision=first, value="corrected", correction="travel"),
            "judged": FeedbackFactory(decision=first, metric="tone", value=0.5, source="llm"),
            "second": FeedbackFactory(decision=second, idempotency_key="click-1"),
            "helper": FeedbackFactory(decision=DecisionFactory(agent=helper)),
            "episode": FeedbackFactory(metric="score", value=1, source="code", **of_episode),
            "unit": FeedbackFactory(metric="minutes", value=4, source="system", **unit),
            "early": FeedbackFactory(decision=None, decision_id=uuid.uuid4(), workspace=agent.workspace),
        }
        return {name: str(one.id) for name, one in made.items()} | {
            "of_first": f"chatcmpl-{first.id}", "of_episode": str(episode.id)
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("", ["early", "unit", "episode", "helper", "second", "judged", "first"]),
            ("agent=filer", ["episode", "second", "judged", "first"]),
            ("agent=helper", ["helper"]),
            ("decision={of_first}", ["judged", "first"]),
            ("episode={of_episode}", ["episode", "judged", "first"]),
            ("unit=ann", ["unit"]),
            ("metric=verdict&agent=filer", ["second", "first"]),
            ("source=llm", ["judged"]),
            ("source=human&episode={of_episode}", ["first"]),
            ("until=2020-01-01T00:00:00Z", []),
        ],
    )
    def test_each_filter_finds_what_it_names_and_nothing_else(
        self, query: str, names: list[str], api: Any, said: dict[str, str]
    ) -> None:
        assert listed(api, f"feedback?{query.format(**said)}") == [said[name] for name in names]

    def test_a_row_names_what_it_is_on_and_says_all_of_it(self, api: Any, said: dict[str, str]) -> None:
        rows = {row["id"]: row for row in api("export:read").get("feedback").json()["results"]}
        first, unit = rows[said["first"]], rows[said["unit"]]
        assert (first["value"], first["correction"], first["source"]) == ("corrected", "travel", "human")
        assert f"chatcmpl-{first['decision']}" == said["of_first"] and first["episode"] is first["unit"] is None
        assert (unit["unit"], unit["decision"], unit["value"]) == ("ann", None, 4)
        assert rows[said["second"]]["idempotency_key"] == "click-1"
        assert rows[said["episode"]]["episode"] == said["of_episode"]

    def test_what_is_not_usable_is_refused_and_a_row_costs_no_statement(
        self, api: Any, said: dict[str, str], django_assert_max_num_queries: Any
    ) -> None:
        client = api("export:read")
        for query in ("agent=nobody", "source=rumour", "decision=x", "verdict=confirmed", "limit=0"):
            assert client.get(f"feedback?{query}").status_code == 400
        assert api("feedback:write").get("feedback").status_code == 403
        client.get("feedback")
        with django_assert_max_num_queries(6):
            assert len(client.get("feedback?agent=filer").json()["results"]) == 4


class TestRewards:
    @pytest.fixture
    def paid(self, agent: Any, helper: Any, other_workspace: Any) -> dict[str, Any]:
        """The first of filer's three decisions has two versions by spec 1 and one by spec 2."""
        now, spec, episode = timezone.now(), current_reward_spec(agent), EpisodeFactory(agent=agent)
        newer = RewardSpecFactory(agent=agent, number=spec.number + 1)
        ids = [uuid7_at(now - dt.timedelta(days=days)) for days in (3, 2, 1)]
        ofs = [DecisionFactory(agent=agent, id=pk, episode=episode if pk == ids[1] else None) for pk in ids]
        for version in (1, 2):
            RewardFactory(decision=ofs[0], spec=spec, version=version, value=version / 4)
        RewardFactory(decision=ofs[0], spec=newer, value=None, raw=None)
        for decision in ofs[1:]:
            RewardFactory(decision=decision, spec=spec)
        DecisionFactory(agent=agent)  # has none yet
        others = DecisionFactory(agent=helper)
        RewardFactory(decision=others, spec=RewardSpecFactory(agent=helper))
        foreign = AgentFactory(workspace=other_workspace)
        AgentVersionFactory(agent=foreign)
        RewardFactory(decision=DecisionFactory(agent=foreign), spec=RewardSpecFactory(agent=foreign))
        between = quote((now - dt.timedelta(days=2, hours=1)).isoformat())
        return {
            "ids": [str(one.id) for one in ofs], "other": str(others.id), "episode": str(episode.id),
            "spec": newer.number, "between": between,
        }  # fmt: skip

    def test_each_filter_finds_what_it_names_and_nothing_else(self, api: Any, paid: dict[str, Any]) -> None:
        old, middle, new = paid["ids"]

        def of(query: str = "") -> list[str]:
            return listed(api, f"rewards?{query}", of="decision")

        assert of() == [paid["other"], new, middle, old, old, old]
        assert of("agent=filer") == [new, middle, old, old, old] and of("agent=helper") == [paid["other"]]
        assert of(f"decision={old}") == [old] * 3 and of(f"episode={paid['episode']}") == [middle]
        assert of(f"spec={paid['spec']}&agent=filer") == [old]
        assert of(f"since={paid['between']}&agent=filer") == [new, middle]
        assert of(f"until={paid['between']}") == [old] * 3
        client = api("export:read")
        for query in ("agent=nobody", "spec=0", "decision=x", "metric=verdict"):
            assert client.get(f"rewards?{query}").status_code == 400
        assert api("feedback:write").get("rewards").status_code == 403

    def test_pages_that_end_inside_a_decision_lose_nothing_in_both_directions(
        self, api: Any, paid: dict[str, Any], django_assert_max_num_queries: Any
    ) -> None:
        client = api("export:read")
        rows = client.get(f"rewards?decision={paid['ids'][0]}").json()["results"]
        assert [(row["agent"], row["spec"], row["version"], row["value"]) for row in rows] == [
            ("filer", 2, 1, None), ("filer", 1, 2, 0.5), ("filer", 1, 1, 0.25),
        ]  # fmt: skip
        forth, path = [], "/api/v1/rewards?limit=4"
        client.get(path)
        with django_assert_max_num_queries(6):
            client.get(path)
        while path:
            answer = client.get(path).json()
            forth.append(answer)
            path = (answer["next"] or "").removeprefix("http://testserver")
        assert [len(page["results"]) for page in forth] == [4, 2]
        back = client.get(forth[-1]["previous"].removeprefix("http://testserver")).json()
        assert back["results"] == forth[0]["results"]


def test_their_lists_end(api: Any) -> None:
    client = api("export:read")
    assert [follow_empty(client, name) for name in ("feedback", "rewards")] == [[], []]


def follow_empty(client: Any, name: str) -> list[Any]:
    answer = client.get(name).json()
    assert answer["next"] is answer["previous"] is None
    return list(answer["results"])
