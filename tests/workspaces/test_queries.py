"""What lists take in their query, and what they refuse instead of passing over it."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from tools.factories import DecisionFactory, EpisodeFactory, TrainingRunFactory, uuid7_at
from tools.openapi import operations, whole_document

pytestmark = pytest.mark.django_db


def fields_of(answer: Any) -> set[str]:
    assert answer.status_code == 400, answer.content
    faults = answer.json()["error"]["fields"]
    assert all(fault["reason"] and fault["expected"] for fault in faults), faults
    return {fault["field"] for fault in faults}


def find(client: Any, path: str, **query: Any) -> Any:
    return client.get(f"{path}?{urlencode(query)}")


def ids_of(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def test_a_value_that_is_not_usable_is_refused_and_not_clamped(agent: Any, api: Any) -> None:
    client = api("admin")
    for limit in ("abc", "-1", "0", "501", "1.5", "1e2", "%C2%B2", "9" * 30):
        assert fields_of(client.get(f"decisions?limit={limit}")) == {"limit"}, limit
    query = "limit=abc&since=yesterday&until=2026-01-01&episode=x&agnet=filer&unit=" + "u" * 201
    assert fields_of(client.get(f"decisions?{query}")) == {"limit", "since", "until", "episode", "agnet", "unit"}
    assert ids_of(client.get("decisions?limit=&since=&agent=")) == []
    assert ids_of(client.get("decisions?limit=500")) == []


@pytest.mark.slow
def test_every_list_refuses_them(agent: Any, api: Any) -> None:
    client, lists = api("admin"), 0
    for method, path, operation in operations(whole_document()):
        names = {parameter.get("name") for parameter in operation.get("parameters", ())}
        if method != "get" or "cursor" not in names or "{" in path.replace("{slug}", ""):
            continue
        path, lists = path.removeprefix("/api/v1/").replace("{slug}", "filer"), lists + 1
        assert {"limit", "since", "until"} <= names, path
        answer = client.get(f"{path}?limit=501&since=x&unknown=1")
        if answer.status_code != 404:  # the agent has no such thing
            assert fields_of(answer) >= {"limit", "unknown"} | ({"since"} if path != "audit" else set()), path
    assert lists > 20


def test_decisions_are_found_by_time_episode_version_and_external_id(agent: Any, api: Any, base_version: Any) -> None:
    client, now = api("export:read"), timezone.now()
    episode = EpisodeFactory(agent=agent)
    old = DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=30)), external_id="ticket-1", unit="Ada")
    mid = DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=2)), episode=episode, unit="Ada")
    new = DecisionFactory(
        agent=agent, id=uuid7_at(now), external_id="ticket-1", model_version=base_version, policy_name=None
    )

    def found(**query: Any) -> list[Any]:
        told = {name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in query.items()}
        made = {str(row.id): row for row in (old, mid, new)}
        return [made[one] for one in ids_of(find(client, "decisions", **told))]

    week = now - dt.timedelta(days=7)
    assert found() == [new, mid, old]
    assert found(since=week) == [new, mid]
    assert found(until=week) == [old]
    assert found(since=week, until=now - dt.timedelta(days=1)) == [mid]
    assert found(episode=str(episode.id)) == [mid]
    assert found(episode=str(episode.id), until=week) == []
    assert found(external_id="ticket-1") == [new, old]
    assert found(external_id="ticket-1", limit=1) == [new]
    assert found(external_id="ticket-1", unit="Ada") == [old]
    assert found(unit="Ada", since=week) == [mid]
    assert found(version=str(base_version)) == found(version=str(base_version.id)) == [new]
    assert found(version=str(base_version), until=week) == []
    assert find(client, "decisions", version="nobody:1").status_code == 404


def test_episodes_are_found_by_name_and_runs_and_versions_by_agent_and_state(
    agent: Any, api: Any, base_version: Any
) -> None:
    client = api("admin")
    named = EpisodeFactory(agent=agent, external_id="mailbox 7")
    EpisodeFactory(agent=agent, external_id="mailbox 8")
    assert ids_of(find(client, "episodes", external_id="mailbox 7")) == [str(named.id)]
    assert ids_of(find(client, "episodes", external_id="mailbox 7", agent="filer")) == [str(named.id)]
    times = {"started_at": timezone.now(), "finished_at": timezone.now()}
    run = TrainingRunFactory(agent=agent, state="succeeded", produced_version=base_version, **times)
    other = TrainingRunFactory()
    assert str(run.id) in ids_of(find(client, "runs", agent="filer"))
    assert str(other.id) not in ids_of(find(client, "runs", agent="filer"))
    assert ids_of(find(client, "runs", state="cancelled")) == []
    assert ids_of(find(client, "runs", version=str(base_version))) == [str(run.id)]
    assert fields_of(find(client, "runs", state="asleep")) == {"state"}
    assert str(base_version.id) in ids_of(find(client, "versions", model=base_version.registered_model.name))
    assert ids_of(find(client, "versions", model="nothing")) == []
    for name in ("decisions", "episodes", "runs", "datasets", "suites", "shadows", "versions", "calls"):
        assert fields_of(find(client, name, agent="nobody")) == {"agent"}, name
        assert find(client, name, agent="filer").status_code == 200, name
