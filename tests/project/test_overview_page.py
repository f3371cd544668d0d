"""The overview of the loop, and what is shown when something is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from tests.factories import (
    AgentFactory,
    AliasFactory,
    DecisionFactory,
    ExperimentFactory,
    FeedbackFactory,
    JobFactory,
    ModelVersionFactory,
    RewardFactory,
)


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:overview", args=[workspace.slug])


def counts(page: Any) -> dict[str, int]:
    return {stage.title: stage.count for stage in page.context["stages"]}


def test_it_counts_what_this_workspace_has(
    agent: Any, other_workspace: Any, viewer: Any, path: str, page_client: Any
) -> None:
    for decision in DecisionFactory.create_batch(3, agent=agent)[:2]:
        FeedbackFactory(decision=decision)
        RewardFactory(decision=decision)
    FeedbackFactory(decision=DecisionFactory(agent=AgentFactory(workspace=other_workspace)))
    found = counts(page_client(viewer).get(path))
    assert found == {"Decisions": 3, "Feedback": 2, "Rewards": 2, "Datasets": 0, "Runs": 0, "Experiments": 0}


def test_counting_stops_where_it_would_get_slow(
    agent: Any, viewer: Any, path: str, page_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.views.MOST_COUNTED", 2)
    DecisionFactory.create_batch(4, agent=agent)
    page = page_client(viewer).get(path)
    assert counts(page)["Decisions"] == 3 and "2+" in page.content.decode()


def test_each_gap_of_the_loop_names_the_next_step(
    workspace: Any, by: Any, viewer: Any, path: str, page_client: Any
) -> None:
    client = page_client(viewer)

    def step() -> str | None:
        found = client.get(path).context["next_step"]
        return found.title if found else None

    assert step() == "Begin with an agent"
    agent = AgentFactory(workspace=workspace, slug="filer")
    assert step() == "Give the agent a model"
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    assert step() == "Ask the agent to decide"
    decision = DecisionFactory(agent=agent)
    assert step() == "Say which decisions were right"
    FeedbackFactory(decision=decision)
    assert step() == "Rewards come by night"
    RewardFactory(decision=decision)
    assert step() == "Train on what was learnt"


def test_it_names_the_champion_and_the_last_verdict(
    agent: Any, viewer: Any, path: str, page_client: Any, workspace: Any
) -> None:
    version = ModelVersionFactory(registered_model=agent.registered_model)
    AliasFactory(version=version)
    ExperimentFactory(
        registered_model=agent.registered_model, verdict="E⁺ reached 40", state="promoted", ended_at=timezone.now()
    )
    text = page_client(viewer).get(path).content.decode()
    assert "filer:1" in text and "E⁺ reached 40" in text


def test_the_demo_loop_is_watched_until_it_ends(workspace: Any, viewer: Any, path: str, page_client: Any) -> None:
    client = page_client(viewer)
    assert "hx-trigger" not in client.get(path).content.decode()
    now = timezone.now()
    job = JobFactory(
        workspace=workspace,
        kind="project.demo_loop",
        state="running",
        lease_until=now,
        started_at=now,
        progress=0.42,
        message="training on 2,000 decisions",
    )
    page = client.get(path).content.decode()
    assert 'hx-trigger="every 2s"' in page and 'value="0.4200"' in page and "training on 2,000 decisions" in page
    part = reverse("pages:loop", args=[workspace.slug])
    assert client.get(part).status_code == 200
    Job.objects.filter(id=job.id).update(state="succeeded", lease_until=None, finished_at=now, progress=1.0)
    over = client.get(part)
    assert over.status_code == 286 and "hx-trigger" not in over.content.decode()


def test_jobs_of_another_workspace_are_not_shown(
    other_workspace: Any, viewer: Any, path: str, page_client: Any
) -> None:
    JobFactory(workspace=other_workspace, kind="secret.work")
    assert "secret.work" not in page_client(viewer).get(path).content.decode()


def test_the_overview_costs_few_queries(
    agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    for _ in range(10):
        AliasFactory(version=ModelVersionFactory(workspace=agent.workspace))
    client = page_client(viewer)
    with django_assert_max_num_queries(16):
        client.get(path)


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/nothing"])
def test_unknown_api_paths_answer_the_envelope(path: str, db: None) -> None:
    answer = Client().get(path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "not_found" and error["request_id"] == answer["X-Request-Id"]


def test_unknown_pages_are_plain_pages(viewer: Any, page_client: Any) -> None:
    answer = page_client(viewer).get("/nothing")
    assert answer.status_code == 404 and "There is no such thing here" in answer.content.decode()


def test_a_fault_of_ours_says_which_request_it_was(
    viewer: Any, path: str, page_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.views._stages", lambda request: 1 / 0)
    answer = page_client(viewer).get(path)
    assert answer.status_code == 500 and answer["X-Request-Id"] in answer.content.decode()
