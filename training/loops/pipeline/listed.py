"""What the list of pipelines shows of each: its newest job, its agent, and what came of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from decisions.models import Agent
from jobs.models import Job
from training.loops.pipeline.services import find_pipelines
from training.models import DatasetSnapshot, TrainingRun
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class PipelineLine:
    """`agent` is None once it is gone. `gain`: of accuracy over the base, with its interval, where it was measured."""

    job: Job
    agent: Agent | None
    dataset: DatasetSnapshot | None
    run: TrainingRun | None

    @property
    def name(self) -> str:
        return str(self.job.payload["pipeline"])

    @property
    def method(self) -> str:
        return str(self.job.payload["plan"]["method"])

    @property
    def state(self) -> str:
        """In the words of badges; "stopping" while its job has been told to end."""
        return "stopping" if self.job.cancel_requested and not self.job.is_terminal else str(self.job.state)

    @property
    def gain(self) -> dict[str, Any] | None:
        evaluation = getattr(self.run, "evaluation", None)
        return evaluation.differences.get("accuracy") if evaluation is not None else None


def find_newest(workspace: Workspace) -> QuerySet[Job]:
    """One job of each pipeline, newest first: one that was resumed counts by its last."""
    later = find_pipelines(workspace).filter(payload__pipeline=OuterRef("payload__pipeline"), id__gt=OuterRef("id"))
    found: QuerySet[Job] = find_pipelines(workspace).exclude(Exists(later))
    return found


def list_pipelines(workspace: Workspace, jobs: Sequence[Job]) -> list[PipelineLine]:
    """In the order of the jobs, by three statements however many they are."""
    names = [job.payload["pipeline"] for job in jobs]
    slugs = {job.payload["agent"] for job in jobs}
    agents = {agent.slug: agent for agent in Agent.objects.for_workspace(workspace).filter(slug__in=slugs)}
    datasets = DatasetSnapshot.objects.for_workspace(workspace).filter(name__in=names).order_by("-id")
    runs = (
        TrainingRun.objects.for_workspace(workspace)
        .filter(dataset__name__in=names)
        .select_related("dataset", "agent", "evaluation", "produced_version__registered_model")
        .order_by("id")
    )
    dataset_of = {dataset.name: dataset for dataset in datasets}
    run_of = {run.dataset.name: run for run in runs}
    return [
        PipelineLine(job, agents.get(job.payload["agent"]), dataset_of.get(name), run_of.get(name))
        for job, name in zip(jobs, names, strict=True)
    ]
