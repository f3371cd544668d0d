"""The overview page: the loop, its polling, the first run; and what is shown when something is wrong."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from project.demo.start import WorkspaceInUse, start_demo
from tools.factories import (
    AgentFactory,
    AliasFactory,
    DecisionFactory,
    ExperimentFactory,
    FeedbackFactory,
    GateVerdictFactory,
    JobFactory,
    ModelVersionFactory,
    uuid7_at,
)
from workspaces.access.actors import system
from workspaces.models import AuditEntry


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:overview", args=[workspace.slug])


@pytest.fixture
def start(workspace: Any) -> str:
    return reverse("pages:demo-start", args=[workspace.slug])


def test_it_names_the_champion_the_stations_and_the_last_verdict(
    agent: Any, viewer: Any, path: str, page_client: Any
) -> None:
    FeedbackFactory(decision=DecisionFactory(agent=agent))
    version = ModelVersionFactory(registered_model=agent.registered_model)
    AliasFactory(version=version)
    ExperimentFactory(
        registered_model=agent.registered_model, verdict="E⁺ reached 40", state="promoted", ended_at=timezone.now()
    )
    page = page_client(viewer).get(path)
    text = page.content.decode()
    assert "filer:1" in text and "E⁺ reached 40" in text
    for station in page.context["home"].stations:
        assert f'id="station-{station.key}"' in text and f'href="{station.url}"' in text
    assert "1 waiting" in text.partition('id="station-reward"')[2].partition("</li>")[0]


def test_it_polls_while_something_moves_and_stops_with_286(
    workspace: Any, agent: Any, viewer: Any, path: str, page_client: Any
) -> None:
    now = timezone.now()
    old = now.replace(year=now.year - 1)
    DecisionFactory(agent=agent, id=uuid7_at(old), observed_at=old)
    client = page_client(viewer)
    assert "hx-trigger" not in client.get(path).content.decode()
    job = JobFactory(
        workspace=workspace,
        kind="project.demo_loop",
        state="running",
        lease_until=now.replace(year=now.year + 1),
        started_at=now,
        progress=0.42,
        message="training on 2,000 decisions",
    )
    page = client.get(path).content.decode()
    assert 'hx-trigger="every 3s"' in page and 'value="0.4200"' in page and "Training on 2,000 decisions" in page
    part = reverse("pages:loop", args=[workspace.slug])
    assert client.get(part).status_code == 200
    Job.objects.filter(id=job.id).update(state="succeeded", lease_until=None, finished_at=now, progress=1.0)
    over = client.get(part)
    assert over.status_code == 286 and "hx-trigger" not in over.content.decode()


def test_jobs_of_another_workspace_are_not_shown(
    other_workspace: Any, viewer: Any, path: str, page_client: Any, agent: Any
) -> None:
    DecisionFactory(agent=agent)
    JobFactory(workspace=other_workspace, kind="secret.work")
    assert "secret.work" not in page_client(viewer).get(path).content.decode()


def test_the_overview_costs_few_queries(
    agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    DecisionFactory(agent=agent)
    for _ in range(10):
        AliasFactory(version=ModelVersionFactory(workspace=agent.workspace))
    client = page_client(viewer)
    with django_assert_max_num_queries(30):
        client.get(path)


def test_what_needs_an_admin_is_a_fact_for_others(
    agent: Any, viewer: Any, labeller: Any, admin: Any, path: str, page_client: Any
) -> None:
    DecisionFactory(agent=agent)
    champion, version = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
    GateVerdictFactory(version=version, against=champion)
    shown = {user: page_client(user).get(path).content.decode() for user in (viewer, labeller, admin)}
    assert (
        "Ask an admin to do this: start an experiment" in shown[viewer]
        and "Ask a labeller to do this: label" in shown[viewer]
    )
    assert ">Label</a>" in shown[labeller] and ">Start an experiment</a>" not in shown[labeller]
    assert ">Start an experiment</a>" in shown[admin]


class TestFirstRun:
    def test_it_offers_three_ways_and_goes_with_the_first_decision(
        self, workspace: Any, admin: Any, path: str, page_client: Any, start: str
    ) -> None:
        client = page_client(admin)
        text = client.get(path).content.decode()
        assert start in text and "manage.py rehearse" in text
        assert reverse("pages:connect", args=[workspace.slug]) in text
        DecisionFactory(agent=AgentFactory(workspace=workspace))
        assert start not in client.get(path).content.decode()

    def test_the_button_starts_the_demo_once_and_the_page_follows_it(
        self, admin: Any, path: str, start: str, page_client: Any, workspace: Any
    ) -> None:
        client = page_client(admin)
        for _ in range(2):
            assert client.post(start)["Location"] == path
        job = Job.objects.get(kind="project.demo_loop")
        assert (job.workspace, job.state) == (workspace, "queued")
        assert AuditEntry.objects.filter(action="demo.started", actor=admin.email).count() == 1
        text = client.get(path).content.decode()
        assert "Demo loop" in text and "hx-trigger" in text and start not in text

    @pytest.mark.parametrize("role, status", [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_only_an_admin_starts_it(
        self, role: str, status: int, request: Any, start: str, path: str, page_client: Any
    ) -> None:
        client = page_client(request.getfixturevalue(role))
        assert client.post(start).status_code == status
        assert not Job.objects.exists() and not AuditEntry.objects.exists()
        if role != "outsider":
            text = client.get(path).content.decode()
            assert start not in text and "Only admins can start the demo." in text

    def test_a_get_starts_nothing(self, admin: Any, start: str, page_client: Any) -> None:
        assert page_client(admin).get(start).status_code == 405
        assert not Job.objects.exists()


class TestStartingTheDemo:
    def test_it_refuses_a_workspace_in_use_and_starts_nothing(self, by: Any, workspace: Any) -> None:
        agent = AgentFactory(workspace=workspace, slug="filer")
        with pytest.raises(WorkspaceInUse):
            start_demo(by=by)
        type(agent).objects.filter(pk=agent.pk).update(slug="sorter")
        DecisionFactory(agent=agent)
        with pytest.raises(WorkspaceInUse):
            start_demo(by=by)
        assert not Job.objects.exists()

    def test_a_dead_loop_goes_on_in_a_new_job_and_a_living_one_is_found(self, by: Any) -> None:
        first = start_demo(by=by)
        assert start_demo(by=by) == first
        Job.objects.filter(pk=first.pk).update(state="dead", finished_at=timezone.now())
        second = start_demo(by=by)
        assert second != first and start_demo(by=by) == second

    def test_two_presses_at_once_start_one(self, transactional_db: None, workspace: Any, at_once: Any) -> None:
        jobs = at_once(4, lambda: start_demo(by=system(workspace)).pk)
        assert len(set(jobs)) == 1 and Job.objects.count() == 1

    def test_each_workspace_has_its_own(self, by: Any, other_workspace: Any) -> None:
        assert start_demo(by=by) != start_demo(by=system(other_workspace))

    def test_bootstrap_starts_it_once_and_leaves_a_workspace_in_use_alone(
        self, workspace: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        agent = AgentFactory(workspace=workspace, slug="filer")
        call_command("bootstrap", "--json")
        assert not Job.objects.exists() and '"demo_job": null' in capsys.readouterr().out
        type(agent).objects.filter(pk=agent.pk).update(slug="sorter")
        for _ in range(2):
            call_command("bootstrap", "--json")
        assert str(Job.objects.get().pk) in capsys.readouterr().out


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/nothing"])
def test_unknown_api_paths_answer_the_envelope(path: str, db: None) -> None:
    answer = Client().get(path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "not_found" and error["request_id"] == answer["X-Request-Id"]


def test_unknown_pages_are_plain_pages(viewer: Any, page_client: Any) -> None:
    answer = page_client(viewer).get("/nothing")
    assert answer.status_code == 404 and "Page not found" in answer.content.decode()


def test_an_unknown_page_of_a_workspace_keeps_the_way_around_for_its_members(
    viewer: Any, outsider: Any, workspace: Any, page_client: Any
) -> None:
    way = reverse("pages:decisions", args=[workspace.slug])
    for person, keeps in ((viewer, True), (outsider, False)):
        answer = page_client(person).get(f"/w/{workspace.slug}/nothing/here")
        assert answer.status_code == 404
        assert (f'href="{way}"' in answer.content.decode()) is keeps
    assert Client().get(f"/w/{workspace.slug}/nothing/here").status_code == 404


def test_pages_travel_compressed_and_answers_to_programs_do_not(
    viewer: Any, page_client: Any, path: str, api: Any
) -> None:
    answer = page_client(viewer).get(path, headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip" and "Accept-Encoding" in answer["Vary"]
    assert b"<html" in gzip.decompress(answer.content)
    listed = api().get("agents", **{"Accept-Encoding": "gzip"})
    assert not listed.has_header("Content-Encoding")


def test_a_fault_of_ours_says_which_request_it_was(
    viewer: Any, path: str, page_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.pages.views.read_home", lambda workspace: 1 / 0)
    answer = page_client(viewer).get(path)
    assert answer.status_code == 500 and answer["X-Request-Id"] in answer.content.decode()
