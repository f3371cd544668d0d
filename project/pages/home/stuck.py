"""Finds what is stuck: failed or silent runs, experiments and jobs, and an absent broker or model server."""

from __future__ import annotations

import datetime as dt

import httpx
from django.conf import settings
from django.core.cache import cache
from django.db.models import Q

from decisions.rewards.queueing import CALCULATE_REWARDS
from decisions.tasks import MATURE_OUTCOMES
from jobs.models import Job, JobState, Outbox
from models_registry.backends.outbound import http_client
from models_registry.models import ExperimentState
from project.pages.home.counts import LedgerCounts
from project.pages.home.items import Item, page_url
from project.pages.home.rows import MOST, Rows
from training.exports.services import EXPORT
from training.loops.rehearsal.services import KIND as REHEARSE
from training.run_states import RunState
from training.runs.services import SUPERVISE
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
        why = "The broker or the scheduler is down. No job is lost: the sweeper notifies workers again."
        found.append(Item("record", f"{count} due jobs have not reached a worker", why, unsent[0]))
    if serves and not _model_server_answers():
        why = "Agents cannot decide until it is back. Recording decisions and feedback still works."
        found.append(Item("serve", "The model server does not answer", why, None))
    return found


def _feedback(ledger: LedgerCounts) -> list[Item]:
    if not ledger.orphans:
        return []
    why = "These decisions have not been recorded within an hour of their feedback. Check the IDs that the app sends."
    what = f"{ledger.orphans:,} feedback entries for unknown decisions"
    return [Item("feedback", what, why, ledger.orphan_since)]


def _last_line(error: str, longest: int = 200) -> str:
    return error.strip().splitlines()[-1][:longest] if error.strip() else "No reason was given."


def _runs(workspace: Workspace, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []
    for run in rows.runs:
        name, url = str(run), page_url(workspace, "run", run.pk)
        if run.state == RunState.FAILED and not run.made_good:
            found.append(Item("train", f"{name} failed", _last_line(run.error), run.finished_at, "Show error", url))
    for run in rows.under_way:
        name, url = str(run), page_url(workspace, "run", run.pk)
        heard = run.last_word or run.started_at or run.created_at
        if now - heard > STILL:
            why = "The training process has not reported." if run.started_at else "No worker has started it."
            found.append(Item("train", f"{name} makes no progress", why, heard, "Open", url))
    return found


def _experiments(workspace: Workspace, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []

    def add(what: str, why: str, since: dt.datetime | None, action: str = "Open") -> None:
        found.append(Item("experiment", what, why, since, action, page_url(workspace, "experiment", experiment.pk)))

    for experiment in rows.experiments:
        if experiment.state == ExperimentState.ROLLED_BACK:
            why = experiment.verdict or "The treatment is worse."
            add(f"{experiment.name} was rolled back", why, experiment.ended_at, "Show reason")
    for experiment in rows.live:
        if experiment.sample_ratio_mismatch:
            why = "The arms do not have their planned shares: something drops units of one arm."
            why += " The verdict cannot be trusted."
            add(f"Sample ratio mismatch in {experiment.name}", why, experiment.started_at)
        window = max((phase.attribution_window_seconds for phase in experiment.phases.all()), default=0.0)
        first = experiment.started_at + dt.timedelta(seconds=experiment.exposure_window_seconds + window)
        if not experiment.matured and now > first + 2 * dt.timedelta(seconds=settings.OUTCOME_SECONDS):
            why = "Units were exposed, but none has matured." if experiment.met else "No unit has been exposed."
            add(f"{experiment.name} has no matured units", why, first)
    return found


def _jobs(rows: Rows, now: dt.datetime) -> list[Item]:
    # A run says itself what became of its job.
    found = [item for job in rows.jobs if job.kind != SUPERVISE and (item := _job(job, now))]
    # Jobs of the whole instance: their errors may speak of other workspaces, so only the operator reads them.
    for kind in dict.fromkeys(job.kind for job in rows.shared_jobs):
        newest = next(job for job in rows.shared_jobs if job.kind == kind)
        what = "failed permanently" if newest.state == JobState.DEAD else "lost its worker"
        why = "This job serves all workspaces. The operator finds the reason in the log of the worker."
        found.append(
            Item(station_of(kind), f"Shared job “{newest.title}” {what}", why, newest.finished_at or newest.lease_until)
        )
    return found


def _job(job: Job, now: dt.datetime) -> Item | None:
    """None for a job that goes its way."""

    def item(what: str, why: str, since: dt.datetime | None) -> Item:
        return Item(station_of(job.kind), f"Job “{job.title}” {what}", why, since)

    tried = f"{job.attempts} of {job.max_attempts}"
    if job.state == JobState.DEAD:
        return item("failed permanently", _last_line(job.error), job.finished_at)
    if job.lease_until is not None and job.lease_until < now:
        why = f"Its worker was lost (attempt {tried}). The sweeper queues the job again."
        return item("lost its worker", why, job.lease_until)
    if job.state == JobState.QUEUED and job.error and job.attempts:
        why = f"Attempt {tried} failed: {_last_line(job.error, 160)}"
        return item("is being retried", why, job.started_at or job.created_at)
    if job.state == JobState.QUEUED and job.run_after < now - STILL:
        return item("is waiting", "No worker has started it.", job.run_after)
    return None


def station_of(kind: str) -> str:
    return STATION_OF_JOB.get(kind, "record")


def _model_server_answers() -> bool:
    """Asked at most every PROBE_SECONDS a process. Any answer counts: whether it is ready is its own probe's matter."""
    key = f"home:model-server:{settings.MODEL_SERVER_URL}"
    answers: bool | None = cache.get(key)
    if answers is None:
        try:
            http_client(settings.MODEL_SERVER_URL, own=True).get("/livez", timeout=PROBE_TIMEOUT_SECONDS)
            answers = True
        except httpx.HTTPError:
            answers = False
        cache.set(key, answers, PROBE_SECONDS)
    return answers
