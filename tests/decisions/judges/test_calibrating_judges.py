"""Calibrations: what is read of the ledger, what switches a judge off, and how it comes back after a drift."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from decisions.errors import JudgeNotCalibrated
from decisions.judges.calibrating import calibrate_judge, calibrate_judges, read_assessment, require_calibrated
from decisions.judges.ledger import JudgeName, find_judges, read_scored
from decisions.models import Decision, Feedback, JudgeCalibration
from decisions.tasks import queue_judges
from jobs.models import Job
from jobs.runner import run_job
from tests.decisions.judges.conftest import feedback
from tools.factories import AgentVersionFactory

pytestmark = pytest.mark.django_db
HELPFUL = JudgeName("helpful")


def test_a_judge_that_agrees_is_calibrated_and_may_be_rested_on(
    agent: Any, by: Any, score: Callable[..., None], django_assert_num_queries: Any
) -> None:
    score(400, labels=160)
    with pytest.raises(JudgeNotCalibrated, match="never calibrated"):
        require_calibrated(agent, HELPFUL)
    with django_assert_num_queries(6):  # the newest row, two reads, and a transaction with one row
        made = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (made.verdict, made.scores, made.labels, made.people_metric) == ("calibrated", 400, 160, "verdict")
    assert require_calibrated(agent, HELPFUL) == made
    found = read_assessment(JudgeCalibration.objects.get())
    assert found is not None
    assert (found.labels, found.units) == (160, 80)
    assert found.corrected.low < 0.5 < found.corrected.high
    assert found.corrected.high - found.corrected.low < found.labels_only.high - found.labels_only.low
    assert {one.cut for one in found.by_slice} == {"version", "action"}
    assert found.by_place is not None and found.by_length is None  # options have a place, and no length of their own


def test_few_labels_give_a_reason_and_no_number(agent: Any, by: Any, score: Callable[..., None]) -> None:
    score(200, labels=99)
    made = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (made.verdict, made.assessment) == ("refused", None)
    assert made.reasons == ["99 scored decisions have a label, 100 are needed."]
    with pytest.raises(JudgeNotCalibrated, match="helpful is refused: 99 scored"):
        require_calibrated(agent, HELPFUL)


def test_what_counts_is_the_newest_score_and_the_word_that_counts_everywhere(
    agent: Any, by: Any, score: Callable[..., None]
) -> None:
    score(4, labels=4, wrong=0.0)
    now, old = timezone.now(), timezone.now() - dt.timedelta(days=2)
    first, second, third, fourth = Decision.objects.order_by("id")
    stays = float(Feedback.objects.get(decision=fourth, source="llm").value)
    Feedback.objects.bulk_create(
        [
            feedback(first, "helpful", "llm", 0.25, now),
            feedback(first, "helpful", "code", 0.0, now),
            feedback(second, "helpful", "llm", "fine", now),
            feedback(third, "verdict", "human", "ignored", now),
            feedback(fourth, "helpful", "llm", 0.75, old),
        ]
    )
    read = read_scored(agent, HELPFUL, people_metric="verdict", since=now - dt.timedelta(days=90), until=now)
    assert (read.labelled_at.size, read.alone_at.size, read.unreadable) == (2, 1, 1)
    assert sorted(read.labelled.judge) == sorted([0.25, stays])
    assert read_scored(agent, HELPFUL, people_metric="verdict", since=now, until=now).scores == 0


def test_people_of_the_same_metric_come_before_verdicts(agent: Any, by: Any, score: Callable[..., None]) -> None:
    score(300, labels=150, people="helpful", scale=1.0)
    score(10, labels=10, seed=2)
    made = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (made.people_metric, made.labels, made.verdict) == ("helpful", 150, "calibrated")


def test_scores_on_another_scale_than_verdicts_are_refused(agent: Any, by: Any, score: Callable[..., None]) -> None:
    score(300, labels=150, scale=5.0)
    made = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (made.verdict, made.assessment) == ("refused", None)
    assert made.reasons[0].startswith("Its scores range from 0 to 5, people's verdicts from 0 to 1.")


def test_a_drift_switches_off_until_there_are_labels_enough_to_calibrate_anew(
    agent: Any, by: Any, score: Callable[..., None]
) -> None:
    score(400, labels=150, days=30)
    assert calibrate_judge(by=by, agent=agent, judge=HELPFUL).verdict == "calibrated"
    score(150, labels=50, days=3, wrong=0.6, seed=2)
    drifted = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (drifted.verdict, drifted.scores, drifted.labels) == ("drifted", 150, 50)
    assert drifted.reasons[0].startswith("Its errors have changed since ")
    assert drifted.reasons[1] == "50 scored decisions have a label, 100 are needed."
    assert drifted.drift is not None and drifted.drift["size"]["low"] > 0
    # What came before the drift never counts again, and the judge stays off until there are labels enough.
    again = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (again.verdict, again.labels, again.since) == ("drifted", 50, drifted.since)
    with pytest.raises(JudgeNotCalibrated, match="helpful is drifted"):
        require_calibrated(agent, HELPFUL)
    # Repaired: that it errs otherwise again is a drift, too, and these labels are enough at once.
    score(400, labels=150, days=0.5, seed=3)
    repaired = calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    assert (repaired.verdict, repaired.labels, repaired.reasons) == ("calibrated", 150, [])
    assert repaired.since > drifted.since
    everything = calibrate_judge(by=by, agent=agent, judge=HELPFUL, since=timezone.now() - dt.timedelta(hours=2))
    assert (everything.verdict, everything.scores) == ("refused", 0)


def test_the_daily_job_calibrates_judge_models_and_code_that_somebody_calibrated(
    agent: Any, by: Any, score: Callable[..., None], other_workspace: Any
) -> None:
    other = AgentVersionFactory(agent__workspace=other_workspace, agent__slug="filer").agent
    score(3, metric="helpful")
    score(3, metric="clicks", source="code", seed=2)
    score(3, metric="theirs", of=other, seed=3)
    assert find_judges(agent) == [HELPFUL]
    calibrate_judge(by=by, agent=agent, judge=JudgeName("clicks", "code"))
    assert {row.metric for row in calibrate_judges(by=by, agent=agent)} == {"helpful", "clicks"}
    queue_judges()
    job = Job.objects.get()
    assert run_job(job.id) == "succeeded"
    job.refresh_from_db()
    assert job.result == {"judges": 3}
    assert JudgeCalibration.objects.for_workspace(other_workspace).get().metric == "theirs"


def test_the_command_tells_and_exits_by_the_verdict(agent: Any, score: Callable[..., None]) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command("calibrate_judge", *arguments, stdout=out, stderr=err)
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue() + err.getvalue()
        return 0, out.getvalue()

    assert call("filer") == (1, "No judge model scored the newest decisions of this agent.\n")
    score(400, labels=160)
    code, told = call("filer")
    assert code == 0
    assert told.startswith("helpful (llm): calibrated; 160 labels of 400 scores\n  Corrected mean 0.")
    code, told = call("filer", "helpful", "--json", "--since", f"{timezone.now():%Y-%m-%d}")
    judge = json.loads(told)["judges"][0]
    assert (code, judge["verdict"], judge["scores"]) == (1, "refused", 0)
    before = JudgeCalibration.objects.count()
    for arguments in (
        ["nobody"],
        ["filer", "x" * 65],
        ["filer", "helpful", "--since", "May"],
        ["filer", "--since=2026-01-01"],
    ):
        assert call(*arguments)[0] == 2
    assert JudgeCalibration.objects.count() == before
