"""Reads the runs, experiments and jobs in progress or ended lately, once, for every part of the home page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, Subquery

from jobs.models import Job, JobState
from models_registry.models import (
    Alias,
    AliasName,
    Experiment,
    ExperimentState,
    Exposure,
    ModelVersion,
    Observation,
    Variant,
    VersionState,
)
from models_registry.versions.gates import read_gate
from training.models import Evaluation, RunEvent, TrainingRun
from training.models.run import TERMINAL_VALUES
from training.run_states import RunState
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

RECENT = dt.timedelta(days=7)
"""How long a failure or an ended experiment stays on the page."""
RECENT_SHARED = dt.timedelta(days=1)
MOST = 50


@dataclass(frozen=True, slots=True)
class Rows:
    """The newest MOST of each. Jobs are the workspace's own, or of the whole instance (`shared_jobs`)."""

    runs: Sequence[Any]
    experiments: Sequence[Any]
    versions: Sequence[Any]
    jobs: Sequence[Job]
    shared_jobs: Sequence[Job]

    @property
    def working(self) -> list[Job]:
        """Jobs that wait or work."""
        return [job for job in self.jobs if job.state != JobState.DEAD]

    @property
    def live(self) -> list[Any]:
        """Experiments that run."""
        return [experiment for experiment in self.experiments if experiment.state == ExperimentState.RUNNING]

    @property
    def under_way(self) -> list[Any]:
        """Runs that are not over."""
        return [run for run in self.runs if run.state not in TERMINAL_VALUES]

    @property
    def untried(self) -> list[Any]:
        """Versions that passed their gate, do not serve, and were never an arm of an experiment."""
        return [
            version
            for version in self.versions
            if not version.tried and not version.serves and read_gate(version).passed
        ]


def read_rows(workspace: Workspace, now: dt.datetime) -> Rows:
    """Seven statements."""
    lately = now - RECENT
    newest_event = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-attempt", "-sequence")
    later_success = TrainingRun.objects.filter(
        agent=OuterRef("agent"), state=RunState.SUCCEEDED, finished_at__gt=OuterRef("finished_at")
    )
    runs = (
        TrainingRun.objects.for_workspace(workspace)
        .filter(~Q(state__in=TERMINAL_VALUES) | Q(finished_at__gte=lately))
        .select_related("agent", "produced_version__registered_model")
        .defer("spec", "metrics")
        .annotate(last_word=Subquery(newest_event.values("at")[:1]), made_good=Exists(later_success))
    )
    experiments = (
        Experiment.objects.for_workspace(workspace)
        .filter(Q(state=ExperimentState.RUNNING) | Q(ended_at__gte=lately))
        .select_related("registered_model", "promoted_version__registered_model")
        .annotate(
            matured=Exists(Observation.objects.filter(experiment=OuterRef("pk"))),
            met=Exists(Exposure.objects.filter(experiment=OuterRef("pk"))),
        )
        .prefetch_related("phases")
    )
    versions = (
        ModelVersion.objects.for_workspace(workspace)
        .filter(state=VersionState.READY)
        .select_related("registered_model")
        .annotate(
            tried=Exists(Variant.objects.filter(version=OuterRef("pk"))),
            evaluated=Exists(Evaluation.objects.filter(version=OuterRef("pk"))),
            serves=Exists(Alias.objects.filter(version=OuterRef("pk"), name=AliasName.CHAMPION)),
        )
        .prefetch_related("gate_verdicts")
    )
    jobs = Job.objects.for_workspace(workspace).filter(
        Q(state__in=(JobState.QUEUED, JobState.RUNNING)) | Q(state=JobState.DEAD, id__gte=uuid7_bound(lately))
    )
    shared = Job.objects.filter(workspace=None, id__gte=uuid7_bound(now - RECENT_SHARED)).filter(
        Q(state=JobState.DEAD) | Q(state=JobState.RUNNING, lease_until__lt=now)
    )
    return Rows(*(list(found.order_by("-id")[:MOST]) for found in (runs, experiments, versions, jobs, shared)))
