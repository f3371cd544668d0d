"""What is stuck, what needs a person, and what moved today, as the home page lists it.

Each reader takes rows that are few by nature (runs, experiments, versions, jobs that are under way or failed lately)
and returns plain values. `project.home` puts them together with the large tables' numbers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings
from django.core.cache import cache
from django.db.models import Exists, OuterRef, Q, Subquery
from django.urls import reverse
from django.utils.text import slugify

from jobs.models import Job, JobState, Outbox
from models_registry.models import (
    Alias,
    AliasName,
    Experiment,
    ExperimentState,
    Exposure,
    GateVerdict,
    ModelVersion,
    Observation,
    Variant,
    VersionState,
)
from training.models import Evaluation, RunEvent, TrainingRun
from training.models.run import TERMINAL_VALUES
from training.run_states import RunState
from workspaces.ids import uuid7_bound
from workspaces.models import ApiKey, AuditEntry, Membership, Role, Workspace

RECENT = dt.timedelta(days=7)
"""How long a failure or an ended experiment stays on the page."""
RECENT_SHARED = dt.timedelta(days=1)
STILL = dt.timedelta(minutes=15)
"""A run without a word for this long, or a job that nobody took, is stuck."""
UNSENT = dt.timedelta(minutes=1)
LONG_UNDECIDED = 4
"""An experiment with this many times the units and the age it needs, and no verdict, wants a person's decision."""
MOST = 50
PROBE_SECONDS = 15
PROBE_TIMEOUT_SECONDS = 0.5
RUN_JOBS = ("training.supervise_run", "training.export")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is stuck or needs a person: what, why, since when, and where to act on it.

    `role` is the least that may act; the page shows the action to others as a fact without a link.
    """

    station: str
    what: str
    why: str
    since: dt.datetime | None
    action: str = ""
    url: str = ""
    role: str = Role.VIEWER

    @property
    def key(self) -> str:
        """The same for the same thing at the next look, so that a swap keeps the focus."""
        return slugify(re.sub(r"[\d,+]+", "", f"{self.station} {self.what}"))[:60] + self.url[-6:].strip("/")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that moved today."""

    at: dt.datetime
    what: str
    by: str = ""
    url: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """The few rows that the lists are made of, read once."""

    runs: Sequence[TrainingRun]
    experiments: Sequence[Any]
    versions: Sequence[Any]
    jobs: Sequence[Job]
    shared_jobs: Sequence[Job]


def read_rows(workspace: Workspace, now: dt.datetime) -> Rows:
    """Five statements."""
    lately = now - RECENT
    later_success = TrainingRun.objects.filter(
        agent=OuterRef("agent"), state=RunState.SUCCEEDED, finished_at__gt=OuterRef("finished_at")
    )
    newest_event = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-attempt", "-sequence").values("at")[:1]
    runs = (
        TrainingRun.objects.for_workspace(workspace)
        .filter(~Q(state__in=TERMINAL_VALUES) | Q(finished_at__gte=lately))
        .select_related("agent", "produced_version__registered_model")
        .defer("spec", "metrics")
        .annotate(last_word=Subquery(newest_event), made_good=Exists(later_success))
        .order_by("-id")[:MOST]
    )
    experiments = (
        Experiment.objects.for_workspace(workspace)
        .filter(Q(state=ExperimentState.RUNNING) | Q(ended_at__gte=lately))
        .select_related("registered_model")
        .annotate(
            matured=Exists(Observation.objects.filter(experiment=OuterRef("pk"))),
            met=Exists(Exposure.objects.filter(experiment=OuterRef("pk"))),
        )
        .prefetch_related("phases")
        .order_by("-id")[:MOST]
    )
    newest_gate = GateVerdict.objects.filter(version=OuterRef("pk")).order_by("-created_at")
    versions = (
        ModelVersion.objects.for_workspace(workspace)
        .filter(state=VersionState.READY)
        .select_related("registered_model")
        .annotate(
            passed=Subquery(newest_gate.values("passed")[:1]),
            gained=Subquery(newest_gate.values("estimate")[:1]),
            gated_at=Subquery(newest_gate.values("created_at")[:1]),
            tried=Exists(Variant.objects.filter(version=OuterRef("pk"))),
            evaluated=Exists(Evaluation.objects.filter(version=OuterRef("pk"))),
            serves=Exists(Alias.objects.filter(version=OuterRef("pk"), name=AliasName.CHAMPION)),
        )
        .order_by("-id")[:MOST]
    )
    open_jobs = Q(state__in=(JobState.QUEUED, JobState.RUNNING))
    jobs = (
        Job.objects.for_workspace(workspace)
        .filter(open_jobs | Q(state=JobState.DEAD, id__gte=uuid7_bound(lately)))
        .order_by("-id")[:MOST]
    )
    shared = (
        Job.objects.filter(workspace=None, id__gte=uuid7_bound(now - RECENT_SHARED))
        .filter(Q(state=JobState.DEAD) | Q(state=JobState.RUNNING, lease_until__lt=now))
        .order_by("-id")[:MOST]
    )
    return Rows(list(runs), list(experiments), list(versions), list(jobs), list(shared))


def is_under_way(run: TrainingRun) -> bool:
    return run.state not in TERMINAL_VALUES


def find_stuck(workspace: Workspace, rows: Rows, now: dt.datetime, *, serves: bool) -> list[Item]:
    """`serves`: the workspace has a champion, so a model server is wanted."""
    slug = workspace.slug
    found = [*_stuck_runs(slug, rows.runs, now), *_stuck_experiments(slug, rows.experiments, now)]
    found += _stuck_jobs(slug, rows, now)
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


def _stuck_runs(slug: str, runs: Iterable[Any], now: dt.datetime) -> list[Item]:
    found = []
    for run in runs:
        url = reverse("pages:run", args=[slug, run.pk])
        if run.state == RunState.FAILED and not run.made_good:
            why = run.error.strip().splitlines()[-1][:200] if run.error.strip() else "It gave no reason."
            found.append(Item("train", f"The {run} of {run.agent.name} failed", why, run.finished_at, "Read why", url))
        elif is_under_way(run):
            heard = run.last_word or run.started_at or run.created_at
            if now - heard > STILL:
                why = "No word from its engine." if run.started_at else "No worker has taken it."
                found.append(Item("train", f"The {run} of {run.agent.name} does not move", why, heard, "Look", url))
    return found


def _stuck_experiments(slug: str, experiments: Iterable[Any], now: dt.datetime) -> list[Item]:
    found = []
    for experiment in experiments:
        url = reverse("pages:experiment", args=[slug, experiment.pk])
        if experiment.state == ExperimentState.ROLLED_BACK:
            why = experiment.verdict or "The treatment was worse."
            found.append(
                Item("experiment", f"{experiment.name} was rolled back", why, experiment.ended_at, "Read why", url)
            )
        if experiment.state != ExperimentState.RUNNING:
            continue
        if experiment.sample_ratio_mismatch:
            why = (
                "The arms' sizes do not fit the split: something drops units of one arm. Its verdict cannot be trusted."
            )
            found.append(
                Item("experiment", f"Sample ratio alarm in {experiment.name}", why, experiment.started_at, "Look", url)
            )
        if not experiment.matured:
            window = max((phase.attribution_window_seconds for phase in experiment.phases.all()), default=0.0)
            first = experiment.started_at + dt.timedelta(seconds=experiment.exposure_window_seconds + window)
            if now > first + 2 * dt.timedelta(seconds=settings.OUTCOME_SECONDS):
                why = "Units met it, but none has matured." if experiment.met else "No unit has met it: nobody asks."
                found.append(Item("experiment", f"{experiment.name} has no matured unit", why, first, "Look", url))
    return found


def _stuck_jobs(slug: str, rows: Rows, now: dt.datetime) -> list[Item]:
    found = []
    for job in rows.jobs:
        if job.kind in RUN_JOBS:
            continue  # the run and the export say it themselves
        if job.state == JobState.DEAD:
            why = job.error.strip().splitlines()[-1][:200] if job.error.strip() else "It gave no reason."
            found.append(Item(station_of(job.kind), f"The job {job.kind} is dead", why, job.finished_at))
        elif job.lease_until is not None and job.lease_until < now:
            why = f"Its worker was lost (attempt {job.attempts} of {job.max_attempts}); the sweeper takes it back."
            found.append(Item(station_of(job.kind), f"The job {job.kind} lost its worker", why, job.lease_until))
        elif job.state == JobState.QUEUED and job.error and job.attempts:
            why = f"Attempt {job.attempts} of {job.max_attempts} failed: {job.error.strip().splitlines()[-1][:160]}"
            found.append(
                Item(
                    station_of(job.kind), f"The job {job.kind} is being retried", why, job.started_at or job.created_at
                )
            )
        elif job.state == JobState.QUEUED and job.run_after < now - STILL:
            found.append(
                Item(station_of(job.kind), f"The job {job.kind} waits", "No worker has taken it.", job.run_after)
            )
    # Jobs of the whole instance: their errors may speak of other workspaces, so only the operator reads them.
    for kind in dict.fromkeys(job.kind for job in rows.shared_jobs):
        newest = next(job for job in rows.shared_jobs if job.kind == kind)
        what = "is dead" if newest.state == JobState.DEAD else "lost its worker"
        why = "It works for all workspaces; the operator finds the reason in the worker's log."
        since = newest.finished_at or newest.lease_until
        found.append(Item(station_of(kind), f"The shared job {kind} {what}", why, since))
    return found


STATION_OF_JOB = {
    "decisions.reckon_rewards": "reward",
    "decisions.mature_outcomes": "experiment",
    "training.supervise_run": "train",
    "training.export": "register",
    "training.rehearse": "train",
}


def station_of(kind: str) -> str:
    """The station that a job of this kind works for."""
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


def find_needs(workspace: Workspace, rows: Rows, now: dt.datetime, *, of: str, unanswered: int) -> list[Item]:
    """What a person should do, the most valuable first. `of` says what the unanswered are counted among."""
    slug = workspace.slug
    found = [*_gates_passed(slug, rows), *_experiments_to_read(slug, rows.experiments, now)]
    if unanswered:
        why = "Nothing has said yet whether they were right. The least certain one comes first: c confirms, x corrects."
        url = reverse("pages:label", args=[slug])
        what = f"{unanswered:,}{of} decision{'' if unanswered == 1 and not of else 's'} to judge"
        found.append(Item("feedback", what, why, None, "Judge", url, Role.LABELLER))
    if not ApiKey.objects.for_workspace(workspace).filter(revoked_at=None).filter(
        Q(expires_at=None) | Q(expires_at__gt=now)
    ).exists():  # fmt: skip
        url = reverse("pages:connect", args=[slug])
        why = "Without a key no app can ask an agent or send feedback."
        found.append(Item("serve", "No app is connected", why, None, "Connect an app", url, Role.ADMIN))
    waiting = list(
        Membership.objects.filter(workspace=workspace, user__must_change_password=True, user__is_active=True)
        .select_related("user")
        .order_by("created_at")[:5]
    )
    for member in waiting:
        why = "Whoever knows the password can log in. It is worthless once an own one is set at the first log-in."
        found.append(Item("serve", f"{member.user} still has a one-time password", why, member.user.created_at))
    return found


def _gates_passed(slug: str, rows: Rows) -> list[Item]:
    found = []
    for version in passed_untried(rows.versions):
        why = f"{version.gained * 100:+.1f} points of accuracy on held-out inputs, its whole interval above 0."
        url = reverse("pages:version-try", args=[slug, version.pk])
        found.append(
            Item(
                "register",
                f"{version} passed its gate: try it on live traffic",
                why.replace("-", "−"),
                version.gated_at,
                "Start an experiment",
                url,
                Role.ADMIN,
            )
        )
    return found


def passed_untried(versions: Iterable[Any]) -> list[Any]:
    """Versions that may be tried, do not serve, and were never an arm of an experiment."""
    return [version for version in versions if version.passed and not version.tried and not version.serves]


def _experiments_to_read(slug: str, experiments: Iterable[Any], now: dt.datetime) -> list[Item]:
    found = []
    for experiment in experiments:
        url = reverse("pages:experiment", args=[slug, experiment.pk])
        if experiment.state == ExperimentState.PROMOTED:
            why = experiment.verdict or "The treatment was better."
            what = f"{experiment.name} is decided: promoted"
            found.append(Item("experiment", what, why, experiment.ended_at, "Read the evidence", url))
        elif experiment.state == ExperimentState.RUNNING:
            units = min(experiment.units_control, experiment.units_treatment)
            age = (now - experiment.started_at).total_seconds()
            enough = units >= LONG_UNDECIDED * experiment.min_units_per_arm
            if enough and age >= LONG_UNDECIDED * experiment.min_seconds:
                why = f"{units:,} units an arm and no verdict: the difference is small. Stop it, or let it go on."
                found.append(
                    Item(
                        "experiment",
                        f"{experiment.name} stays undecided",
                        why,
                        experiment.started_at,
                        "Look",
                        url,
                        Role.ADMIN,
                    )
                )
    return found


TOLD: dict[str, tuple[str, str]] = {
    "agent.created": ("Agent {slug} made", ""),
    "api_key.created": ("An API key made", ""),
    "api_key.revoked": ("An API key revoked", ""),
    "alias.champion": ("{name} is champion", "ok"),
    "dataset.created": ("A dataset of {rows} decisions frozen", ""),
    "dataset.imported": ("A labelled dataset imported", ""),
    "demo.started": ("The demo world started", ""),
    "experiment.started": ("An experiment started", ""),
    "experiment.stopped": ("An experiment stopped", ""),
    "rehearsal.started": ("A rehearsal started", ""),
    "run.started": ("A run started", ""),
    "version.registered": ("{name} registered", "ok"),
}
"""Audit entries that are told, in words; the others are details of these."""
PAGE_OF_TARGET = {"model_version": "version", "experiment": "experiment", "run": "run", "training_run": "run"}


def find_moved(workspace: Workspace, rows: Rows, today: dt.datetime, *, rewards: str, last_reward: dt.datetime | None
               ) -> list[Event]:  # fmt: skip
    """Newest first. `rewards` says how many were reckoned today, or is empty."""
    slug = workspace.slug
    entries = (
        AuditEntry.objects.for_workspace(workspace)
        .filter(id__gte=uuid7_bound(today), action__in=TOLD)
        .order_by("-id")[:MOST]
    )
    events = [_told(slug, entry) for entry in entries]
    for run in rows.runs:
        if run.finished_at is not None and run.finished_at >= today:
            made = f": {run.produced_version}" if run.produced_version else ""
            tone = {RunState.SUCCEEDED: "ok", RunState.FAILED: "bad"}.get(RunState(run.state), "")
            url = reverse("pages:run", args=[slug, run.pk])
            events.append(Event(run.finished_at, f"The {run} {run.state}{made}", url=url, tone=tone))
    for experiment in rows.experiments:
        by_rule = experiment.state in (ExperimentState.PROMOTED, ExperimentState.ROLLED_BACK)
        if by_rule and experiment.ended_at >= today:
            tone = "ok" if experiment.state == ExperimentState.PROMOTED else "bad"
            what = f"{experiment.name}: {experiment.get_state_display().lower()}"
            url = reverse("pages:experiment", args=[slug, experiment.pk])
            events.append(Event(experiment.ended_at, what, url=url, tone=tone))
    if rewards and last_reward is not None:
        events.append(Event(last_reward, f"{rewards} rewards reckoned"))
    return sorted(events, key=lambda event: event.at, reverse=True)


def _told(slug: str, entry: AuditEntry) -> Event:
    words, tone = TOLD[entry.action]
    kind, _, pk = entry.target.partition(":")
    page = PAGE_OF_TARGET.get(kind)
    details = {name: str(entry.details.get(name, "?")) for name in ("slug", "name", "rows")}
    return Event(
        entry.at,
        words.format_map(details),
        by=entry.actor if entry.actor != "system" else "",
        url=reverse(f"pages:{page}", args=[slug, pk]) if page else "",
        tone=tone,
    )
