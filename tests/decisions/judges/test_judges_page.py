"""The page of an agent's judges: what it says in each state, and who may calibrate one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from decisions.judges.calibrating import calibrate_judge
from decisions.judges.ledger import JudgeName
from decisions.models import JudgeCalibration
from jobs.models import Job
from jobs.runner import run_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def path(agent: Any) -> str:
    return reverse("pages:agent-judges", args=[agent.workspace.slug, agent.slug])


def test_it_says_what_is_known_and_what_to_do(
    agent: Any, by: Any, path: str, viewer: Any, page_client: Any, score: Callable[..., None]
) -> None:
    client = page_client(viewer)
    assert "No judge has scored this agent’s decisions." in client.get(path).content.decode()
    score(400, labels=160)
    score(30, labels=10, metric="polite", seed=5)
    text = client.get(path).content.decode()
    assert "Never calibrated" in text and "Calibrate now" not in text
    for metric in ("helpful", "polite"):
        calibrate_judge(by=by, agent=agent, judge=JudgeName(metric))
    text = client.get(path).content.decode()
    assert "1 of 2 judges can be relied on alone." in text
    assert "It agrees with people and can be relied on alone. With it, 160 labels say as much of the mean as " in text
    assert "Label 90 more of the decisions that it scored, in random order." in text
    assert text.count("Corrected by labels") == 1
    assert "Never calibrated" not in text


def test_many_judges_cost_no_more_statements(
    agent: Any, by: Any, path: str, viewer: Any, page_client: Any, score: Callable[..., None],
    django_assert_max_num_queries: Any,
) -> None:  # fmt: skip
    for number in range(4):
        score(2, metric=f"judge {number}", seed=number)
        calibrate_judge(by=by, agent=agent, judge=JudgeName(f"judge {number}"))
    client = page_client(viewer)
    client.get(path)
    with django_assert_max_num_queries(9):
        client.get(path)


def test_an_admin_calibrates_a_judge(
    agent: Any, path: str, admin: Any, page_client: Any, score: Callable[..., None]
) -> None:
    score(400, labels=160)
    client = page_client(admin)
    assert "Calibrate now: helpful" in client.get(path).content.decode()
    answer = client.post(f"{path}/calibrate", {"metric": "helpful", "source": "llm"}, follow=True)
    assert "helpful is being calibrated." in answer.content.decode()
    assert "Calibrate now: helpful" not in answer.content.decode()  # one is under way
    run_job(Job.objects.get().id)
    assert JudgeCalibration.objects.get().made_by == admin.email
    refused = client.post(f"{path}/calibrate", {"metric": "", "source": "human"})
    assert refused.status_code == 400
    assert Job.objects.count() == 1
