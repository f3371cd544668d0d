"""GET and POST /api/v1/agents/{slug}/judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decisions.judges.calibrating import calibrate_judge
from decisions.judges.ledger import JudgeName
from decisions.judges.telling import as_plain
from decisions.models import JudgeCalibration
from jobs.models import Job
from jobs.runner import run_job
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


def test_a_program_asks_for_a_calibration_and_reads_it(agent: Any, api: Any, score: Callable[..., None]) -> None:
    client = api("admin", "export:read")
    score(400, labels=160)
    assert client.get("agents/filer/judges").json() == {
        "results": [],
        "uncalibrated": [{"metric": "helpful", "source": "llm"}],
    }
    queued = client.post("agents/filer/judges", {"metric": "helpful"})
    assert queued.status_code == 202
    assert client.post("agents/filer/judges", {"metric": "helpful"}).json() == queued.json()
    assert AuditEntry.objects.filter(action="judge.calibration_requested").count() == 1
    assert run_job(Job.objects.get(id=queued.json()["id"]).id) == "succeeded"
    told = client.get("agents/filer/judges").json()
    assert told["uncalibrated"] == []
    (judge,) = told["results"]
    assert (judge["verdict"], judge["labels"], judge["scores"]) == ("calibrated", 160, 400)
    assert judge["made_by"].startswith("key:")
    plain = as_plain(JudgeCalibration.objects.get())
    assert {name: judge[name] for name in ("assessment", "drift", "reasons", "warnings")} == {
        name: plain[name] for name in ("assessment", "drift", "reasons", "warnings")
    }
    assert set(plain) == set(judge) - {"id"}


def test_the_newest_calibration_of_each_judge_is_listed_in_three_statements(
    agent: Any, by: Any, api: Any, score: Callable[..., None], django_assert_max_num_queries: Any
) -> None:
    client = api("export:read")
    for metric in ("helpful", "polite"):
        score(3, metric=metric)
        for _ in range(2):
            calibrate_judge(by=by, agent=agent, judge=JudgeName(metric))
    client.get("agents/filer/judges")
    with django_assert_max_num_queries(6):
        told = client.get("agents/filer/judges").json()
    assert [one["metric"] for one in told["results"]] == ["helpful", "polite"]
    newest = JudgeCalibration.objects.order_by("-id").first()
    assert told["results"][1]["id"] == str(newest and newest.id)


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "metric"), ({"metric": "x", "source": "human"}, "source"), ({"metric": "x", "judge": 1}, "judge")],
)
def test_what_is_no_judge_is_refused(agent: Any, api: Any, body: Any, field: str) -> None:
    answer = api("admin").post("agents/filer/judges", body)
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["error"]["fields"]] == [field]
    assert Job.objects.count() == 0
