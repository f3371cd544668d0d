"""Steps and episodes over the API: kept, repeated, in conflict, refused, and read back in order."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from decisions.ingest.step_schemas import EpisodeIn, StepIn
from decisions.models import Episode, Step
from tests.decisions.conftest import body
from tools.factories import DecisionFactory, EpisodeFactory, StepFactory, uuid7_at
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
NO_UUID7 = "3be670da-6f73-4e29-a4bd-f7bb5ffe2fd3"
MOMENT = "2026-01-02T03:04:05.678901Z"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def client(api: Any, agent: Any) -> Any:
    return api("decisions:write", "export:read")


def step(**fields: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "agent": "filer", "episode": "mailbox", "name": "search"} | fields


def episode(**fields: Any) -> dict[str, Any]:
    return {"agent": "filer", "episode": "mailbox"} | fields


def faults(answer: Any) -> set[str]:
    return {fault["field"] for fault in answer.json()["error"]["fields"]}


class TestSteps:
    def test_every_field_comes_back_as_it_was_sent(self, client: Any, agent: Any) -> None:
        decision = DecisionFactory(agent=agent)
        sent = step(
            id=str(uuid7()),
            kind="reasoning",
            decision_id=str(decision.id),
            number=3,
            external_id="call-7",
            parent="call-6",
            arguments={"query": "héllo 😀", "deep": [1, 2.5, None]},
            result=["a", {"b": True}],
            success=False,
            error="it broke",
            reasoning_type="analysis",
            content="first this, then that",
            confidence=0.25,
            insights=["one"],
            issues=["two", "three"],
            model="gpt-of-yesterday",
            tokens_in=10,
            tokens_out=2,
            cost=0.00012345,
            started_at=MOMENT,
            duration_ms=12.5,
            attributes={"anything": "else"},
        )
        assert {field.name for field in msgspec.structs.fields(StepIn)} == set(sent)
        answer = client.post("steps", sent)
        assert answer.status_code == 201, answer.content
        assert answer.json() == {"kept": [{"index": 0, "id": sent["id"], "duplicate": False}], "errors": []}
        [shown] = client.get("steps").json()["results"]
        for name in set(sent) - {"agent", "episode", "cost"}:
            assert shown[name] == sent[name], name
        assert float(shown["cost"]) == 0.00012345
        assert Episode.objects.get(id=shown["episode"]).external_id == "mailbox"

    def test_a_step_may_come_before_its_decision(self, client: Any) -> None:
        early = str(uuid7())
        assert client.post("steps", {"kind": "reasoning", "content": "hm", "decision_id": early}).status_code == 201
        assert client.post("decisions", body(id=early, episode="mailbox")).status_code == 201
        shown = client.get(f"episodes/{Episode.objects.get().id}").json()
        assert [one["content"] for one in shown["steps"]] == ["hm"]
        assert (shown["totals"]["steps"], shown["totals"]["decisions"]) == (1, 1)

    def test_a_step_of_a_known_decision_belongs_to_its_episode(self, client: Any, agent: Any) -> None:
        decision = DecisionFactory(agent=agent, episode=EpisodeFactory(agent=agent))
        client.post("steps", {"kind": "tool_call", "decision_id": str(decision.id)})
        assert Step.objects.get().episode == decision.episode

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"kind": "daydream"}, "kind"),
            ({"agent": "nobody"}, "agent"),
            ({"agent": None}, "agent"),
            ({"episode": None}, "episode"),
            ({"agent": None, "episode": None}, "decision_id"),
            ({"decision_id": NO_UUID7}, "decision_id"),
            ({"id": NO_UUID7}, "id"),
            ({"id": str(uuid7_at(timezone.now() - dt.timedelta(days=401)))}, "id"),
            ({"confidence": 1.1}, "confidence"),
            ({"duration_ms": -1}, "duration_ms"),
            ({"tokens_in": 2**31}, "tokens_in"),
            ({"error": "it broke", "success": True}, "success"),
            ({"started_at": "9999-12-31T23:59:59-14:00"}, "started_at"),
            ({"insights": "one"}, "insights"),
            ({"surprise": 1}, "surprise"),
        ],
        # Names of fields alone: an id that is made now would be another in each worker.
        ids=lambda told: told if isinstance(told, str) else "-".join(told),
    )
    def test_a_bad_field_is_named_and_nothing_is_kept(self, client: Any, fields: dict[str, Any], field: str) -> None:
        answer = client.post("steps", step(**fields))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
        assert field in faults(answer)
        assert not Step.objects.exists() and not Episode.objects.exists()

    def test_repeats_and_conflicts_by_id(self, client: Any) -> None:
        sent = step(id=str(uuid7()), arguments={"a": 1, "b": 2})
        assert client.post("steps", sent).json()["kept"][0]["duplicate"] is False
        again = client.post("steps", sent | {"arguments": {"b": 2, "a": 1}})
        assert again.json()["kept"][0]["duplicate"] is True
        answer = client.post("steps", sent | {"name": "find"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "id_conflict")
        assert Step.objects.get().name == "search"

    def test_one_bad_item_does_not_cost_the_others(self, client: Any) -> None:
        answer = client.post("steps", [step(), step(kind="daydream"), 7, step(agent="nobody"), step(number=4)])
        assert answer.status_code == 207
        assert [one["index"] for one in answer.json()["kept"]] == [0, 4]
        assert [one["index"] for one in answer.json()["errors"]] == [1, 2, 3]
        assert Step.objects.count() == 2

    def test_a_thousand_go_in_at_once_and_no_more(self, client: Any, django_assert_max_num_queries: Any) -> None:
        with django_assert_max_num_queries(16):
            assert client.post("steps", [step(number=n, episode=f"e{n % 7}") for n in range(1000)]).status_code == 201
        assert client.post("steps", [step()] * 1001).status_code == 400
        assert (Step.objects.count(), Episode.objects.count()) == (1000, 7)

    def test_another_workspace_s_decision_is_not_there(self, client: Any, other_workspace: Any) -> None:
        theirs = DecisionFactory(agent__workspace=other_workspace)
        answer = client.post("steps", {"kind": "tool_call", "decision_id": str(theirs.id)})
        assert answer.status_code == 400 and faults(answer) == {"decision_id"}
        assert not Step.objects.exists()

    def test_steps_are_found_by_episode_and_by_decision(self, client: Any, agent: Any) -> None:
        decision = DecisionFactory(agent=agent)
        mine = StepFactory(episode=EpisodeFactory(agent=agent))
        other = StepFactory(episode=EpisodeFactory(agent=agent), decision=decision)
        for query, wanted in ((f"episode={mine.episode_id}", mine), (f"decision={decision.id}", other)):
            assert [one["id"] for one in client.get(f"steps?{query}").json()["results"]] == [str(wanted.id)]
        assert client.get("steps?episode=mailbox").status_code == 400


class TestEpisodes:
    def test_every_field_comes_back_as_it_was_sent(self, client: Any) -> None:
        sent = episode(
            session="monday",
            unit="ann",
            query="what came in?",
            final_response="three notes",
            tasks_created=4,
            tasks_completed=3,
            tasks_failed=1,
            llm_calls=9,
            tokens_in=1000,
            tokens_out=200,
            cost=0.0375,
            duration_ms=1234.5,
            started_at=MOMENT,
            ended_at="2026-01-02T03:04:07Z",
        )
        assert {field.name for field in msgspec.structs.fields(EpisodeIn)} == set(sent)
        answer = client.post("episodes", sent)
        assert answer.status_code == 201, answer.content
        shown = client.get(f"episodes/{answer.json()['kept'][0]['id']}").json()
        for name in set(sent) - {"episode", "cost"}:
            assert shown[name] == sent[name], name
        assert (shown["external_id"], float(shown["cost"])) == ("mailbox", 0.0375)

    def test_what_is_said_later_is_added_and_replaces(self, client: Any) -> None:
        first = client.post("episodes", episode(query="what came in?", tasks_created=2)).json()["kept"][0]
        again = client.post("episodes", episode(query="what came in?")).json()["kept"][0]
        more = client.post("episodes", [episode(final_response="a"), episode(final_response="b", tasks_created=3)])
        assert (again["id"], again["duplicate"]) == (first["id"], True)
        assert [one["duplicate"] for one in more.json()["kept"]] == [False, False]
        row = Episode.objects.get()
        assert (row.query, row.final_response, row.tasks_created) == ("what came in?", "b", 3)

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"agent": "nobody"}, "agent"),
            ({"episode": ""}, "episode"),
            ({"tasks_created": -1}, "tasks_created"),
            ({"ended_at": "9999-12-31T23:59:59-14:00"}, "ended_at"),
            ({"cost": -1}, "cost"),
            ({"surprise": 1}, "surprise"),
        ],
        # Names of fields alone: an id that is made now would be another in each worker.
        ids=lambda told: told if isinstance(told, str) else "-".join(told),
    )
    def test_a_bad_field_is_named_and_nothing_is_kept(self, client: Any, fields: dict[str, Any], field: str) -> None:
        answer = client.post("episodes", episode(**fields))
        assert answer.status_code == 400 and any(name.startswith(field) for name in faults(answer))
        assert not Episode.objects.exists()

    def test_a_trace_s_episode_is_one_whoever_names_it(self, client: Any, by: Any, agent: Any) -> None:
        from decisions.agents.services import AgentSetup, create_agent

        create_agent(
            by=by, slug="reader", name="Reader", setup=AgentSetup(prompt_template="{{ x }}", action_space="text")
        )
        name = f"trace:{TRACE}"
        client.post("steps", step(episode=name))
        client.post("decisions", body(episode=name))
        client.post("decisions", body(agent="reader", action="words", episode=name))
        client.post("episodes", episode(agent="reader", episode=name, query="q"))
        row = Episode.objects.get()
        assert (row.trace, row.agent, row.query) == (TRACE, agent, "q")
        assert row.decisions.count() == 2

    def test_one_trace_in_two_workspaces_is_two_episodes(self, client: Any, api: Any, other_workspace: Any) -> None:
        from decisions.agents.services import AgentSetup, create_agent
        from workspaces.access.actors import system

        setup = AgentSetup(prompt_template="{{ text }}", action_space="text")
        create_agent(by=system(other_workspace), slug="filer", name="Theirs", setup=setup)
        for sender in (client, api.of(other_workspace, "decisions:write")):
            assert sender.post("steps", step(episode=f"trace:{TRACE}")).status_code == 201
        assert Episode.objects.count() == 2

    def test_an_episode_is_told_in_order_with_its_totals(self, client: Any, agent: Any) -> None:
        row = EpisodeFactory(agent=agent)
        start = timezone.now().replace(microsecond=0) - dt.timedelta(minutes=1)

        def after(seconds: float) -> dt.datetime:
            return start + dt.timedelta(seconds=seconds)

        decision = DecisionFactory(
            agent=agent, episode=row, tokens_in=5, tokens_out=1, cost="0.5", observed_at=after(2)
        )
        asked = DecisionFactory(agent=agent, episode=row, tokens_in=100, observed_at=after(3))
        common: dict[str, Any] = {"episode": row}
        StepFactory(**common, name="late", started_at=after(4), duration_ms=6000.0, success=False, error="broke")
        StepFactory(**common, name="whole", kind="span", started_at=after(1), duration_ms=8000.0, tokens_in=999)
        StepFactory(**common, name="inner", kind="llm_call", started_at=after(1), duration_ms=10.0, tokens_in=100,
                    tokens_out=20, cost="0.25", decision=asked)  # fmt: skip
        shown = client.get(f"episodes/{row.id}").json()
        assert [one["name"] for one in shown["steps"]] == ["whole", "inner", "late"]
        assert [one["id"] for one in shown["decisions"]] == sorted([str(decision.id), str(asked.id)])
        totals = shown["totals"]
        assert {name: totals[name] for name in ("steps", "decisions", "failures", "tool_calls", "llm_calls")} == {
            "steps": 3, "decisions": 2, "failures": 1, "tool_calls": 1, "llm_calls": 1,
        }  # fmt: skip
        # The span repeats what lies in it, and the asked decision is its model call.
        assert (totals["tokens_in"], totals["tokens_out"], float(totals["cost"])) == (105, 21, 0.75)
        assert totals["ended_at"] == f"{after(10):%Y-%m-%dT%H:%M:%SZ}"

    def test_lists_filter_by_agent_session_and_unit(self, client: Any) -> None:
        client.post("episodes", [episode(episode="a", session="s1", unit="ann"), episode(episode="b", session="s2")])
        for query, count in (("agent=filer", 2), ("session=s3", 0), ("session=s1", 1), ("unit=ann", 1), ("", 2)):
            assert len(client.get(f"episodes?{query}").json()["results"]) == count, query

    def test_the_number_of_queries_does_not_grow_with_the_episode(
        self, client: Any, agent: Any, django_assert_max_num_queries: Any
    ) -> None:
        row = EpisodeFactory(agent=agent)
        for _ in range(12):
            StepFactory(episode=row, decision=DecisionFactory(agent=agent, episode=row))
        client.get(f"episodes/{row.id}")  # notes the key's use
        with django_assert_max_num_queries(8):
            assert len(client.get(f"episodes/{row.id}").json()["steps"]) == 12
