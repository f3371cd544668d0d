"""Rewards now: the page with its button, and the API's call, which is the same service."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Reward
from decisions.rewards.queueing import CALCULATE_REWARDS, request_calculation
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import AgentFactory, DecisionFactory, FeedbackFactory, JobFactory, RewardSpecFactory
from workspaces.models import AuditEntry


def at(name: str, workspace: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug])


@pytest.fixture
def waiting(agent: Any, other_workspace: Any) -> Any:
    """A decision whose feedback waits; another workspace has one, too."""
    elsewhere = AgentFactory(workspace=other_workspace)
    RewardSpecFactory(agent=elsewhere)
    FeedbackFactory(decision=DecisionFactory(agent=elsewhere))
    return FeedbackFactory(decision=DecisionFactory(agent=agent)).decision


def test_the_button_queues_one_calculation_of_this_workspace_and_the_page_follows_it(
    waiting: Any, workspace: Any, admin: Any, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    client, path = page_client(admin), at("rewards", workspace)
    assert "</span> feedback entry is new." in client.get(path).content.decode()
    for _ in range(2):
        assert client.post(at("rewards-calculate", workspace))["Location"] == path
    job = Job.objects.get(kind=CALCULATE_REWARDS)
    assert (job.workspace, job.payload) == (workspace, {"requested_by": admin.email})
    assert AuditEntry.objects.filter(action="rewards.requested", actor=admin.email).count() == 1
    busy = client.get(path).content.decode()
    assert "Waiting for a worker" in busy and "every 2s" in busy and "Calculate rewards now" not in busy
    assert "Calculate rewards" in client.get(at("overview", workspace)).content.decode()
    run_job(job.id)
    assert Reward.objects.get().decision == waiting  # nothing of the other workspace
    for _ in range(12):
        JobFactory(workspace=workspace, kind=CALCULATE_REWARDS, payload={"requested_by": "someone"}, state="queued")
        Job.objects.filter(state="queued").update(state="cancelled", finished_at=job.created_at)
    with django_assert_max_num_queries(6):
        over = client.get(at("rewards-status", workspace))
    text = over.content.decode()
    assert over.status_code == 286 and "There is no new feedback." in text and "Calculate rewards now" in text
    client.post(at("rewards-calculate", workspace))
    assert Job.objects.filter(kind=CALCULATE_REWARDS, state="queued").count() == 1


def test_a_daily_calculation_is_shown_without_its_figures(workspace: Any, viewer: Any, page_client: Any) -> None:
    result = {"agents": 7, "rewards": 4711}
    job = JobFactory(kind=CALCULATE_REWARDS, result=result, message="theirs: 4711 rewards")
    Job.objects.filter(id=job.id).update(state="succeeded", finished_at=job.created_at)
    text = page_client(viewer).get(at("rewards", workspace)).content.decode()
    assert "Daily, all workspaces" in text and "4711" not in text and "4,711" not in text


@pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
def test_others_see_no_button_and_start_nothing(
    persona: str, status: int, waiting: Any, workspace: Any, page_client: Any, request: Any
) -> None:
    client = page_client(request.getfixturevalue(persona))
    shown = client.get(at("rewards", workspace))
    assert shown.status_code == (404 if persona == "outsider" else 200)
    assert "Calculate rewards now" not in shown.content.decode()
    assert client.post(at("rewards-calculate", workspace)).status_code == status
    assert not Job.objects.exists()


def test_the_api_answers_with_the_calculation_that_is_under_way(waiting: Any, api: Any) -> None:
    client = api("admin")
    first, second = (client.post("rewards/calculations") for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert first.json()["id"] == second.json()["id"]
    run_job(Job.objects.get().id)
    (listed,) = client.get("rewards/calculations").json()["results"]
    assert (listed["id"], listed["state"], listed["rewards"]) == (first.json()["id"], "succeeded", 1)
    assert client.post("rewards/calculations").json()["id"] != first.json()["id"]


@pytest.mark.django_db(transaction=True)
def test_those_who_ask_at_the_same_moment_get_one_job(by: Any, at_once: Any) -> None:
    jobs = at_once(4, lambda: request_calculation(by=by))
    assert len({job.id for job in jobs}) == Job.objects.count() == 1
