"""What is stuck: runs, experiments and jobs that failed or stand still, hints and a model server that are away."""

from __future__ import annotations

import datetime as dt

import httpx
from django.conf import settings
from django.core.cache import cache
from django.db.models import Q

from decisions.rewards.queueing import CALCULATE_REWARDS
from decisions.tasks import MATURE_OUTCOMES
from jobs.models import Job, JobState, Outbox
from models_registry.models import ExperimentState
from project.home.counts import LedgerCounts
from project.home.items import Item, page_of
from project.home.rows import MOST, Rows
from training.exports import EXPORT
from training.rehearsal.services import KIND as REHEARSE
from training.run_states import RunState
from training.runs import SUPERVISE
from workspaces.models import Workspace

STILL = dt.timedelta(minutes=15)
"""A run without a word for this long, or a job that nobody took, is stuck."""
UNSENT = dt.timedelta(minutes=1)
PROBE_SECONDS = 15
PROBE_TIMEOUT_SECONDS = 0.5
STATION_OF_JOB = {
    CALCULATE_REWARDS: "reward",
    MATURE_OUTCOMES: "experiment",
    SUPERVISE: "train",
    EXPORT: "register",
    REHEARSE: "train",
}
"""The station that a job of a kind works for; the others belong to `record`."""


def find_stuck(workspace: Workspace, rows: Rows, ledger: LedgerCounts, now: dt.datetime, *, serves: bool) -> list[Item]:
    """`serves`: the workspace has a champion, so a model server is wanted."""
    found = [*_feedback(ledger), *_runs(workspace, rows, now), *_experiments(workspace, rows, now), *_jobs(rows, now)]
    unsent = list(
        Outbox.objects.filter(Q(job__workspace=workspace) | Q(job__workspace=None))
        .filter(sent_at=None, job__state=JobState.QUEUED, job__run_after__lte=now - UNSENT)
        .order_by("job__run_after")
        .values_list("job__run_after", flat=True)[:MOST]
    )
    if unsent:
        count = f"{len(unsent)}{'+' if len(unsent) == MOST else ''}"
        why = "Their hints were not sent: the broker or beat is away. Nothing is lost; the sweeper sends them again."
        found.append(Item("record", f"{count} due jobs that no worker knows of", why, unsent[0]))
    if serves and not _model_server_answers():
        why = "Agents cannot decide until it is back. Recording and feedback go on."
        found.append(Item("serve", "The model server does not answer", why, None))
    return found


def _feedback(ledger: LedgerCounts) -> list[Item]:
    if not ledger.orphans:
        return []
    why = "Feedback may come early, but these decisions have not followed for an hour. Does the app send other ids?"
    what = f"{ledger.orphans:,} pieces of feedback on decisions that are not here"
    return [Item("feedback", what, why, ledger.orphan_since)]


def _last_line(error: str, longest: int = 200) -> str:
    return error.strip().splitlines()[-1][:longest] if error.strip() else "It gave no reason."


def _runs(workspace: Workspace, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []
    for run in rows.runs:
        name, url = f"The {run} of {run.agent.name}", page_of(workspace, "run", run.pk)
        if run.state == RunState.FAILED and not run.made_good:
            found.append(Item("train", f"{name} failed", _last_line(run.error), run.finished_at, "Read why", url))
    for run in rows.under_way:
        name, url = f"The {run} of {run.agent.name}", page_of(workspace, "run", run.pk)
        heard = run.last_word or run.started_at or run.created_at
        if now - heard > STILL:
            why = "No word from its engine." if run.started_at else "No worker has taken it."
            found.append(Item("train", f"{name} does not move", why, heard, "Look", url))
    return found


def _experiments(workspace: Workspace, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []

    def add(what: str, why: str, since: dt.datetime | None, action: str = "Look") -> None:
        found.append(Item("experiment", what, why, since, action, page_of(workspace, "experiment", experiment.pk)))

    for experiment in rows.experiments:
        if experiment.state == ExperimentState.ROLLED_BACK:
            why = experiment.verdict or "The treatment was worse."
            add(f"{experiment.name} was rolled back", why, experiment.ended_at, "Read why")
    for experiment in rows.live:
        if experiment.sample_ratio_mismatch:
            why = "The arms' sizes do not fit the split: something drops units of one arm."
            why += " Its verdict cannot be trusted."
            add(f"Sample ratio alarm in {experiment.name}", why, experiment.started_at)
        window = max((phase.attribution_window_seconds for phase in experiment.phases.all()), default=0.0)
        first = experiment.started_at + dt.timedelta(seconds=experiment.exposure_window_seconds + window)
        if not experiment.matured and now > first + 2 * dt.timedelta(seconds=settings.OUTCOME_SECONDS):
            why = "Units met it, but none has matured." if experiment.met else "No unit has met it: nobody asks."
            add(f"{experiment.name} has no matured unit", why, first)
    return found


def _jobs(rows: Rows, now: dt.datetime) -> list[Item]:
    # A run says itself what became of its job.
    found = [item for job in rows.jobs if job.kind != SUPERVISE and (item := _job(job, now))]
    # Jobs of the whole instance: their errors may speak of other workspaces, so only the operator reads them.
    for kind in dict.fromkeys(job.kind for job in rows.shared_jobs):
        newest = next(job for job in rows.shared_jobs if job.kind == kind)
        what = "is dead" if newest.state == JobState.DEAD else "lost its worker"
        why = "It works for all workspaces; the operator finds the reason in the worker's log."
        found.append(
            Item(station_of(kind), f"The shared job {kind} {what}", why, newest.finished_at or newest.lease_until)
        )
    return found


def _job(job: Job, now: dt.datetime) -> Item | None:
    """None for a job that goes its way."""

    def item(what: str, why: str, since: dt.datetime | None) -> Item:
        return Item(station_of(job.kind), f"The job {job.kind} {what}", why, since)

    tried = f"{job.attempts} of {job.max_attempts}"
    if job.state == JobState.DEAD:
        return item("is dead", _last_line(job.error), job.finished_at)
    if job.lease_until is not None and job.lease_until < now:
        why = f"Its worker was lost (attempt {tried}); the sweeper takes it back."
        return item("lost its worker", why, job.lease_until)
    if job.state == JobState.QUEUED and job.error and job.attempts:
        why = f"Attempt {tried} failed: {_last_line(job.error, 160)}"
        return item("is being retried", why, job.started_at or job.created_at)
    if job.state == JobState.QUEUED and job.run_after < now - STILL:
        return item("waits", "No worker has taken it.", job.run_after)
    return None


def station_of(kind: str) -> str:
    return STATION_OF_JOB.get(kind, "record")


def _model_server_answers() -> bool:
    """Asked at most every PROBE_SECONDS a process. Any answer counts: whether it is ready is its own probe's matter."""
    key = f"home:model-server:{settings.MODEL_SERVER_URL}"
    answers: bool | None = cache.get(key)
    if answers is None:
        try:
            httpx.get(f"{settings.MODEL_SERVER_URL}/livez", timeout=PROBE_TIMEOUT_SECONDS)
            answers = True
        except httpx.HTTPError:
            answers = False
        cache.set(key, answers, PROBE_SECONDS)
    return answers
