"""*Train on new decisions*, also where there is no model yet: then the first one is taught by people's verdicts.

Pages, the API and `manage.py runs train` call `start_training`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from decisions.models import Agent
from decisions.queries.first_labels import FirstLabels, find_first_labels
from jobs.context import JobContext
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from training.errors import InvalidRun, RunOver
from training.loops.first_model.loop import FirstModelLoop
from training.loops.first_model.plans import choose_teaching
from training.runs.candidates import find_tagged_runs
from training.runs.defaults.values import Defaults, find_defaults
from training.runs.new_decisions import Readiness, find_readiness, request_training
from training.runs.services import cancel_run
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7

KIND = "training.first_model"
PREFIX = "first-model-"


def start_training(*, by: Actor, agent: Agent, base_model: str = "", lora: bool | None = None) -> Job:
    """The agent's training that waits or works, or a new one: on its new decisions, or where it has no model, of the
    first. `base_model`, of a first model: tiny, a folder or a hub id; by default the instance's. `lora`: whether an
    adapter is trained over a named base; None: only where every weight has no room. Raises InvalidRun where nothing can
    start, with what is missing."""
    defaults = find_defaults(by.workspace, [agent])[agent.id]
    if (under_way := _find_under_way(by.workspace, agent)) is not None:
        return under_way
    if defaults.base is None:
        return _start_first_model(by, agent, defaults, base_model, lora)
    settled = {"base_model": base_model != "", "lora": lora is not None}
    if faults := [
        FieldFault(name, f"{agent.name} has {defaults.base} as its base", "leave it out")
        for name, is_given in settled.items()
        if is_given
    ]:
        raise InvalidRun("The run cannot start.", faults=faults)
    return request_training(by=by, agent=agent)


def find_under_way(workspace: Workspace) -> dict[str, Job]:
    """Jobs that train a first model, by the agent's slug."""
    jobs = Job.objects.for_workspace(workspace).filter(kind=KIND, state__in=(JobState.QUEUED, JobState.RUNNING))
    return {job.payload["agent"]: job for job in jobs.order_by("id")}


def _find_under_way(workspace: Workspace, agent: Agent) -> Job | None:
    return find_under_way(workspace).get(agent.slug)


@transaction.atomic
def _start_first_model(by: Actor, agent: Agent, defaults: Defaults, base_model: str, lora: bool | None) -> Job:
    # A simultaneous request waits here, and finds the first one's job.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    if (under_way := _find_under_way(by.workspace, agent)) is not None:
        return under_way
    first = find_first_labels([agent])[agent.id]
    if not first.ready:
        fault = FieldFault("base_version", f"{agent.name} has no version. {first.missing}", "more verdicts")
        raise InvalidRun("There is no model to train yet.", faults=[fault])
    root = defaults.root or settings.BASE_MODEL
    teaching = choose_teaching(agent, defaults.agent_version, first, root=root, named=base_model, lora=lora)
    payload = {
        "agent": agent.slug,
        "name": f"Verdicts on {agent.name}, {timezone.now():%-d %b %Y %H:%M:%S}"[:180],
        "tag": f"{PREFIX}{str(uuid7())[-8:]}",
        **teaching.as_payload(),
        "requested_by": by.name,
        "run": True,
    }
    job = enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)
    record_audit(by=by, action="run.requested", target=f"job:{job.id}", details={"agent": agent.slug})
    return job


def train_first_model(context: JobContext) -> dict[str, Any] | None:
    """The job's handler."""
    loop = FirstModelLoop(context)
    loop.advance()
    result, says = loop.build_result()
    with context.fenced():
        context.progress(1.0, says)
        context.complete(result)
    return None


def end_with_job(job: Job) -> None:
    """A job that ends early takes its run with it; what was made stays."""
    assert job.workspace is not None
    for run in find_tagged_runs(job.workspace, job.payload["tag"]):
        if not run.is_terminal:
            with suppress(RunOver):  # it ended by itself in this moment
                cancel_run(by=system(job.workspace), run=run)


def can_train(readiness: Readiness, first: FirstLabels | None) -> bool:
    """Whether `start_training` would start a run."""
    return readiness.ready or (readiness.under_way is None and first is not None and first.ready)


def find_all_readiness(workspace: Workspace) -> list[tuple[Readiness, FirstLabels | None]]:
    """Of each agent, whether it can be trained on new decisions; and where it has no model, whether people's verdicts
    suffice for one."""
    found = find_readiness(workspace)
    first = find_first_labels([one.agent for one in found if one.defaults.base is None])
    jobs = find_under_way(workspace)
    return [
        (replace(one, under_way=one.under_way or jobs.get(one.agent.slug)), first.get(one.agent.id)) for one in found
    ]
