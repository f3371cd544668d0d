"""Pages of backends and calls, and what an admin changes on a version's page."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from models_registry.models import Alias, AliasMove, Backend, Deployment, ModelVersion
from models_registry.versions.services import move_alias
from tools.factories import (
    BackendFactory,
    CallFactory,
    DecisionFactory,
    DeploymentFactory,
    ModelVersionFactory,
    uuid7_at,
)


@pytest.fixture
def backend(workspace: Any) -> Any:
    return BackendFactory(workspace=workspace, name="gpt", price_in=1, price_out=10)


@pytest.fixture
def path(workspace: Any) -> Any:
    return lambda name, *pk: reverse(f"pages:{name}", args=[workspace.slug, *pk])


def call_of(version: Any, backend: Any, *, ago: dt.timedelta, **fields: Any) -> Any:
    opened = timezone.now() - ago
    over = {"state": "answered", "served": version, "closed_at": opened + dt.timedelta(milliseconds=120)} | fields
    return CallFactory(id=uuid7_at(opened), assigned=version, backend=backend, opened_at=opened, **over)


class TestBackends:
    def test_each_shows_its_calls_spend_and_latency_of_a_day_and_a_week(
        self, versions: list[Any], backend: Any, viewer: Any, path: Any, page_client: Any
    ) -> None:
        for days in (0.1, 0.2, 3, 10):
            cost = {"tokens_in": 100, "tokens_out": 10, "cost": "0.25"}
            call_of(versions[0], backend, ago=dt.timedelta(days=days), **cost)
        call_of(versions[0], backend, ago=dt.timedelta(days=2), served=versions[1], fallback="filer:1: no answer")
        call_of(versions[0], None, ago=dt.timedelta(hours=1))
        call_of(versions[0], None, ago=dt.timedelta(hours=1), state="failed", served=None, error="no server")
        DeploymentFactory(version=versions[0], backend=backend)
        BackendFactory(workspace=backend.workspace, name="spare", state="down", error="refused")
        answer = page_client(viewer).get(path("backends"))
        line, spare = answer.context["lines"]
        day, week = line["day"], line["week"]
        assert (day.calls, day.stood_in, day.tokens_in, day.cost) == (2, 0, 200, 0.5)
        assert (week.calls, week.stood_in, week.cost, round(day.p50 or 0)) == (4, 1, 0.75, 120)
        assert (answer.context["own"]["day"].calls, spare["week"].calls) == (1, 0)
        assert "spare</a> does not answer" in " ".join(answer.content.decode().split())
        assert "filer:1" in answer.content.decode()

    def test_one_is_added_and_changed_and_every_fault_stands_beside_its_field(
        self, admin: Any, workspace: Any, path: Any, page_client: Any
    ) -> None:
        client = page_client(admin)
        form = {
            "name": "vllm", "kind": "vllm", "url": "https://api.openai.com/v1", "capabilities": ["tools", "stream"],
            "timeout_seconds": "30", "connect_seconds": "1", "retries": "2", "price_in": "0.15", "price_out": "0",
        }  # fmt: skip
        refused = client.post(
            path("backend-new"), {**form, "name": "V LLM", "url": "http://elsewhere/v1", "retries": "9"}
        )
        assert refused.status_code == 400
        assert set(refused.context["form"].errors) == {"name", "url", "retries"}
        assert not Backend.objects.exists()
        assert client.post(path("backend-new"), form).status_code == 302
        made = Backend.objects.get()
        assert (made.capabilities, made.timeout_seconds, made.retries) == (["stream", "tools"], 30.0, 2)
        assert client.post(path("backend-edit", made.id), {**form, "timeout_seconds": "5"}).status_code == 302
        client.post(path("backend-switch", made.id), {"enabled": "off"})
        made.refresh_from_db()
        assert (made.timeout_seconds, made.enabled, made.kind) == (5.0, False, "vllm")

    def test_versions_are_deployed_by_reference_and_taken_away(
        self, admin: Any, versions: list[Any], backend: Any, path: Any, page_client: Any
    ) -> None:
        client, deploy = page_client(admin), path("backend-deploy", backend.id)
        unknown = client.post(deploy, {"version": "filer:9", "priority": "0"})
        assert unknown.status_code == 400 and "Model filer has no version 9" in unknown.content.decode()
        client.post(deploy, {"version": "models:/filer@champion", "remote_name": "ours", "priority": "3"})
        made = Deployment.objects.get()
        assert (made.version, made.remote_name, made.priority) == (versions[0], "ours", 3)
        client.post(path("deployment-change", made.id), {"priority": "1"})
        client.post(path("deployment-change", made.id), {"enabled": "off"})
        made.refresh_from_db()
        assert (made.priority, made.enabled) == (1, False)
        client.post(path("deployment-remove", made.id))
        assert not Deployment.objects.exists()
        client.post(path("backend-remote", backend.id), {"model": "filer", "remote_name": "gpt-4o-mini"})
        remote = ModelVersion.objects.get(remote_name="gpt-4o-mini")
        shown = client.get(path("version", remote.id)).content.decode()
        assert str(remote) == "filer:3" and "Remote model" in shown and path("backend", backend.id) in shown
        assert f"{path('calls')}?version=filer%3A3" in shown


class TestCalls:
    def test_a_list_is_narrowed_and_a_call_leads_to_its_decision(
        self, agent: Any, versions: list[Any], backend: Any, viewer: Any, path: Any, page_client: Any, api: Any
    ) -> None:
        answered = call_of(
            versions[0], backend, ago=dt.timedelta(hours=1), served=versions[1], fallback="filer:1: down"
        )
        failed = call_of(versions[0], None, ago=dt.timedelta(hours=2), state="failed", served=None, error="no server")
        elsewhere = call_of(ModelVersionFactory(workspace=agent.workspace), None, ago=dt.timedelta(hours=3))
        DecisionFactory(agent=agent, id=answered.id)
        client, reader = page_client(viewer), api("export:read")
        for query, wanted in {
            "": [answered, failed, elsewhere],
            "state=failed": [failed],
            "agent=filer": [answered, failed],
            "version=filer:2": [answered],
            "version=filer@champion": [answered, failed],
            "backend=gpt": [answered],
            "backend=none": [],
        }.items():
            shown = client.get(f"{path('calls')}?{query}").context["calls"]
            assert [call.id for call, _ in shown] == [one.id for one in wanted], query
            listed = reader.get(f"calls?{query}").json()["results"]
            assert [one["id"] for one in listed] == [str(one.id) for one in wanted], query
        assert client.get(f"{path('calls')}?state=lost").status_code == 400
        page = client.get(path("call", answered.id)).content.decode()
        assert path("decision", answered.id) in page and "filer:1: down" in page
        assert path("decision", failed.id) not in client.get(path("call", failed.id)).content.decode()

    def test_the_queries_do_not_grow_with_the_calls(
        self, versions: list[Any], backend: Any, viewer: Any, path: Any, page_client: Any,
        django_assert_max_num_queries: Any,
    ) -> None:  # fmt: skip
        for number in range(60):
            call_of(versions[0], backend, ago=dt.timedelta(minutes=number))
        client = page_client(viewer)
        with django_assert_max_num_queries(12):
            first = client.get(path("calls"))
        assert len(first.context["calls"]) == 50
        assert len(client.get(f"{path('calls')}?{first.context['older']}").context["calls"]) == 10


class TestVersion:
    def test_an_alias_is_reverted_by_one_click_and_a_second_click_changes_nothing(
        self, by: Any, admin: Any, versions: list[Any], path: Any, page_client: Any
    ) -> None:
        for version in versions:
            move_alias(by=by, version=version, name="tried", reason="cheap")
        client = page_client(admin)
        page = client.get(path("version", versions[1].id))
        (held,) = page.context["held"]
        assert "Revert to filer:1" in page.content.decode()
        click = {"alias": "tried", "move": str(held["came"].id)}
        assert client.post(path("version-alias-revert", versions[1].id), click).status_code == 302
        assert Alias.objects.get(name="tried").version == versions[0]
        assert client.post(path("version-alias-revert", versions[1].id), click).status_code == 409
        assert Alias.objects.get(name="tried").version == versions[0]
        last = AliasMove.objects.order_by("-id").first()
        assert last is not None and last.by == admin.email and "reverts the move" in last.reason
        assert "reverts the move" in client.get(path("version", versions[0].id)).content.decode()

    def test_it_is_approved_noted_retired_and_restored(
        self, admin: Any, versions: list[Any], path: Any, page_client: Any
    ) -> None:
        client, pk = page_client(admin), versions[1].id
        client.post(path("version-approve", pk), {"note": "read 50 answers"})
        client.post(path("version-note", pk), {"tags": "october cheap", "notes": "Of the corrections."})
        client.post(path("version-alias", pk), {"alias": "tried", "reason": "cheap"})
        page = client.get(path("version", pk)).content.decode()
        for shown in (f"By {admin.email}", "read 50 answers", "october", "Of the corrections.", ": <span dir"):
            assert shown in page
        assert client.post(path("version-retire", pk), {"reason": "old"}).status_code == 409
        client.post(path("version-alias-remove", pk), {"alias": "tried"})
        assert client.post(path("version-retire", pk), {"reason": ""}).status_code == 400
        assert client.post(path("version-retire", pk), {"reason": "old"}).status_code == 302
        assert "was retired on" in client.get(path("version", pk)).content.decode()
        client.post(path("version-restore", pk))
        client.post(path("version-unapprove", pk))
        kept = ModelVersion.objects.get(id=pk)
        assert (kept.state, kept.approved_at, kept.tags) == ("ready", None, ["cheap", "october"])
