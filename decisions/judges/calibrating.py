"""Calibrates judges: reads scores and labels, looks for drift, and keeps what is known as a dated row.

The daily job, `manage.py calibrate_judge`, the API and the page call it. What rests on a judge alone asks
`require_calibrated` first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import numpy as np
from django.db import transaction
from django.utils import timezone

from decisions.errors import JudgeNotCalibrated
from decisions.judges.assessing import Assessment, TooFewLabels, assess_judge, find_objections, find_warnings
from decisions.judges.drift import LEAST_NEW, Drift, count_recent, find_drift
from decisions.judges.ledger import JudgeName, Scored, find_judges, find_people_metric, read_scored
from decisions.models import Agent, JudgeCalibration, JudgeSource, JudgeVerdict
from decisions.models.verdicts import VERDICT
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

CALIBRATE_JUDGES = "decisions.calibrate_judges"
LONGEST_METRIC = 64
PERIOD = dt.timedelta(days=90)
"""Older scores say little of the judge as it is now, and of the decisions as they are."""


@transaction.atomic
def request_calibration(*, by: Actor, agent: Agent, judge: JudgeName) -> Job:
    """A job that calibrates the judge; the one that waits or works, where there is one. Raises InvalidInput."""
    check_judge(judge)
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    payload = {"agent_id": str(agent.id), "metric": judge.metric, "source": str(judge.source), "by": by.name}
    under_way = Job.objects.for_workspace(by.workspace).filter(
        kind=CALIBRATE_JUDGES,
        payload__agent_id=payload["agent_id"],
        payload__metric=judge.metric,
        payload__source=payload["source"],
        state__in=(JobState.QUEUED, JobState.RUNNING),
    )
    if (job := under_way.first()) is not None:
        return job
    job = enqueue_job(kind=CALIBRATE_JUDGES, workspace=by.workspace, payload=payload)
    record_audit(
        by=by,
        action="judge.calibration_requested",
        target=f"agent:{agent.id}",
        details={"metric": judge.metric, "source": str(judge.source)},
    )
    return job


def check_judge(judge: JudgeName) -> None:
    """Raises InvalidInput."""
    faults = []
    if not 0 < len(judge.metric) <= LONGEST_METRIC or "\0" in judge.metric:
        faults.append(FieldFault("metric", "is empty or too long", f"1 to {LONGEST_METRIC} characters"))
    if judge.source not in JudgeSource.values:
        faults.append(
            FieldFault("source", f"{judge.source!r} is not a source of judges", ", ".join(JudgeSource.values))
        )
    if faults:
        raise InvalidInput("The judge is invalid.", faults=faults)


def calibrate_judge(
    *,
    by: Actor,
    agent: Agent,
    judge: JudgeName,
    since: dt.datetime | None = None,
    now: dt.datetime | None = None,
    step: Callable[[], AbstractContextManager[object]] = transaction.atomic,
) -> JudgeCalibration:
    """Measures the judge against people, over the scores that arrived after `since`, and keeps the row.

    Without `since`: over those of the last PERIOD, and of them what came after the judge's last drift. Where it errs
    otherwise lately than before, only what is recent counts: it is calibrated anew where those labels are enough, and
    `drifted` until they are. Two statements read the ledger, one the newest row; `step` opens the transaction that
    writes. Raises InvalidInput.
    """
    check_judge(judge)
    until = now or timezone.now()
    last = find_newest(agent, judge)
    begin = since or max([until - PERIOD, *([last.since] if last is not None else [])])
    people_metric = find_people_metric(agent, judge)
    scored = read_scored(agent, judge, people_metric=people_metric, since=begin, until=until)
    drift, turn = _find_turn(scored)
    if turn is not None:
        begin, scored = turn, scored.after(turn)
    made = _measure(scored, people_metric)
    waits = turn is not None or (since is None and last is not None and last.verdict == JudgeVerdict.DRIFTED)
    if made.verdict == JudgeVerdict.REFUSED and made.assessment is None and waits:
        made.verdict = JudgeVerdict.DRIFTED
        made.reasons = [f"Its errors have changed since {begin:%Y-%m-%d}.", *made.reasons]
    made.agent, made.workspace_id, made.metric, made.source = agent, agent.workspace_id, judge.metric, judge.source
    made.since, made.until, made.made_by = begin, until, by.name
    made.drift = None if drift is None else msgspec.to_builtins(drift)
    with step():
        made.save(force_insert=True)
    return made


def calibrate_judges(
    *, by: Actor, agent: Agent, step: Callable[[], AbstractContextManager[object]] = transaction.atomic
) -> list[JudgeCalibration]:
    """Calibrates every judge model that scored lately, and every judge that had scores when it was calibrated last."""
    known = {JudgeName(row.metric, row.source) for row in list_newest(agent) if row.scores}
    judges = sorted(known | set(find_judges(agent)), key=lambda judge: (judge.metric, judge.source))
    return [calibrate_judge(by=by, agent=agent, judge=judge, step=step) for judge in judges]


def find_newest(agent: Agent, judge: JudgeName) -> JudgeCalibration | None:
    """What is known of the judge; None before it was ever calibrated."""
    rows = JudgeCalibration.objects.filter(agent=agent, metric=judge.metric, source=judge.source)
    return rows.order_by("-id").first()


def list_newest(agent: Agent) -> list[JudgeCalibration]:
    """The newest row of each judge, by metric and source. One statement."""
    rows = JudgeCalibration.objects.filter(agent=agent)
    return list(rows.order_by("metric", "source", "-id").distinct("metric", "source"))


def list_newest_models(workspace: Workspace) -> list[JudgeCalibration]:
    """The newest row of each judge model of any agent, by metric. One statement."""
    rows = JudgeCalibration.objects.for_workspace(workspace).filter(source=JudgeSource.LLM)
    newest = rows.order_by("agent_id", "metric", "-id").distinct("agent_id", "metric")
    return sorted(newest, key=lambda row: row.metric)


def list_judges(agent: Agent) -> tuple[list[JudgeCalibration], list[JudgeName]]:
    """The newest calibration of each judge, and the judge models that scored lately and have none. Two statements."""
    rows = list_newest(agent)
    known = {JudgeName(row.metric, row.source) for row in rows}
    return rows, [judge for judge in find_judges(agent) if judge not in known]


def require_calibrated(agent: Agent, judge: JudgeName) -> JudgeCalibration:
    """For what rests on a judge alone. Raises JudgeNotCalibrated with the reasons."""
    found = find_newest(agent, judge)
    if found is None:
        raise JudgeNotCalibrated(f"{judge.metric} was never calibrated against people.")
    if found.verdict != JudgeVerdict.CALIBRATED:
        raise JudgeNotCalibrated(f"{judge.metric} is {found.verdict}: {' '.join(found.reasons)}")
    return found


def read_assessment(row: JudgeCalibration) -> Assessment | None:
    """None where there were too few labels for a number."""
    return None if row.assessment is None else msgspec.convert(row.assessment, Assessment)


def _find_turn(scored: Scored) -> tuple[Drift | None, dt.datetime | None]:
    """What the comparison of recent labels with earlier ones says, and, where they differ, the last moment before the
    recent ones."""
    recent = count_recent(scored.labelled_at.size)
    if scored.labelled_at.size < recent + LEAST_NEW:
        return None, None
    first = float(np.sort(scored.labelled_at)[-recent])
    turn = dt.datetime.fromtimestamp(first, dt.UTC) - dt.timedelta(milliseconds=1)
    drift = find_drift(scored.until(turn).labelled, scored.after(turn).labelled)
    return drift, turn if drift is not None and drift.found else None


def _measure(scored: Scored, people_metric: str) -> JudgeCalibration:
    """The verdict with its numbers, reasons and warnings."""
    made = JudgeCalibration(
        people_metric=people_metric,
        verdict=JudgeVerdict.REFUSED,
        scores=scored.scores,
        labels=scored.labelled_at.size,
    )
    if reason := _find_other_scale(scored, people_metric):
        made.reasons = [reason]
        return made
    try:
        found = assess_judge(scored.labelled, scored.alone)
    except TooFewLabels as error:
        made.reasons = list(error.reasons)
        return made
    made.assessment = msgspec.to_builtins(found)
    made.reasons, made.warnings = list(find_objections(found)), list(find_warnings(found))
    if not made.reasons:
        made.verdict = JudgeVerdict.CALIBRATED
    return made


def _find_other_scale(scored: Scored, people_metric: str) -> str:
    """Why scores and labels cannot be compared; empty where they can."""
    given = np.concatenate([scored.labelled.judge, scored.alone.judge])
    if people_metric != VERDICT or not given.size or (given.min() >= 0 and given.max() <= 1):
        return ""
    return (
        f"Its scores range from {given.min():g} to {given.max():g}, people's verdicts from 0 to 1. "
        "Send scores from 0 to 1, or people's feedback of the same metric."
    )
