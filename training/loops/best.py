"""*Train the best*: a job that has candidates of several kinds trained on the same rows, and names the best of them.

Pages, the API and commands call `start_best`. Nothing is promoted: gates and experiments judge the winner as they judge
any version.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from decisions.models import Agent
from jobs.context import JobContext
from jobs.errors import Defer, JobCancelled, Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from models_registry.errors import ArtifactRemoved, VersionInUse
from models_registry.versions.retirement import retire_version
from training.engine.spec.methods import METHODS
from training.errors import InvalidRun, RunOver
from training.loops.comparison import Comparison, compare_candidates
from training.models import DatasetSnapshot, TrainingRun
from training.run_states import RunState
from training.runs.candidates import Candidates, PolicyKind, find_candidates, find_tagged_runs, start_candidates
from training.runs.defaults.starting import Wanted, find_default_plan
from training.runs.defaults.values import find_defaults
from training.runs.new_decisions import plan_requested
from training.runs.services import RunPlan, cancel_run
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault
from workspaces.storage.ids import uuid7

KIND = "training.train_best"
PREFIX = "best-"
MINUTES, MOST_MINUTES = 60.0, 7 * 24 * 60.0
LOOK_AGAIN_SECONDS = 1.0
LATE = "The comparison's time was over before it ended."


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the comparison may take, and what it may cost by the price of a machine hour; None: no such limit.
    `kinds`: those that are tried, by default all. `retire_others`: whether versions that did not win are retired."""

    minutes: float = MINUTES
    budget: float | None = None
    kinds: Collection[PolicyKind] = tuple(PolicyKind)
    retire_others: bool = False

    @property
    def seconds(self) -> float:
        """The lower of both limits."""
        price = settings.MACHINE_HOUR_PRICE
        affordable = self.budget / price * 3600 if self.budget is not None and price else float("inf")
        return min(self.minutes * 60, affordable)

    def find_faults(self) -> list[FieldFault]:
        """Why nothing can be compared within these limits."""
        faults = []
        if not 0 < self.minutes <= MOST_MINUTES:
            faults.append(
                FieldFault("minutes", f"{self.minutes:g} is out of range", f"above 0, up to {MOST_MINUTES:g}")
            )
        if self.budget is not None and not settings.MACHINE_HOUR_PRICE:
            fault = "given, but nobody has said what an hour of this machine costs"
            faults.append(FieldFault("budget", fault, "RECKONER_MACHINE_HOUR_PRICE, or leave it out"))
        if self.budget is not None and not self.budget > 0:
            faults.append(FieldFault("budget", f"{self.budget:g} is out of range", "above 0"))
        if not self.kinds:
            faults.append(FieldFault("kinds", "none is given", ", ".join(PolicyKind)))
        return faults


NO_LIMITS = Limits()


def start_best(
    *, by: Actor, agent: Agent, plan: RunPlan, other: RunPlan | None = None, limits: Limits = NO_LIMITS
) -> Job:
    """Starts the candidates' runs, and the job that compares them. `other`: the language model's plan, where `plan`
    trains a classifier. Raises InvalidRun where no candidate can start."""
    if faults := limits.find_faults():
        raise InvalidRun("The comparison cannot start within these limits.", faults=faults)
    if plan.heldout is not None and plan.heldout in (plan.dataset, plan.replay):
        faults = [FieldFault("heldout", "is what the candidates learn from", "other rows")]
        raise InvalidRun("The candidates cannot be compared on the rows that they learn from.", faults=faults)
    champion = find_defaults(by.workspace, [agent])[agent.pk].base
    found = find_candidates(by.workspace, plan, other, champion)
    chosen = Candidates(
        {kind: one for kind, one in found.plans.items() if kind in limits.kinds},
        {kind: reason for kind, reason in found.left_out.items() if kind in limits.kinds},
    )
    if not chosen.plans:
        faults = [FieldFault("kinds", reason, "another kind") for reason in chosen.left_out.values()]
        raise InvalidRun("No candidate can start.", faults=faults)
    tag = f"{PREFIX}{str(uuid7())[-8:]}"
    with transaction.atomic():
        runs, left_out = start_candidates(by=by, agent=agent, candidates=chosen, tag=tag, seconds=limits.seconds)
        payload = {
            "agent": agent.slug,
            "name": f"Best policy of {agent.name} on {plan.dataset.name}"[:200],
            "tag": tag,
            "runs": len(runs),
            "left_out": {kind.value: reason for kind, reason in left_out.items()},
            "until": (timezone.now() + dt.timedelta(seconds=limits.seconds)).isoformat(),
            "retire_others": limits.retire_others,
            "requested_by": by.name,
        }
        job = enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)
        record_audit(by=by, action="best.requested", target=f"job:{job.id}", details={"agent": agent.slug, "tag": tag})
    return job


def plan_best(
    *,
    by: Actor,
    agent: Agent,
    dataset: DatasetSnapshot | None = None,
    heldout: DatasetSnapshot | None = None,
    replay: DatasetSnapshot | None = None,
) -> tuple[RunPlan, RunPlan | None]:
    """The agent's default plan, on this dataset if one is given, and a language model's where that trains a classifier.
    Raises InvalidRun where there is nothing to train on."""
    defaults = find_defaults(by.workspace, [agent])[agent.pk]
    plan = find_default_plan(by=by, agent=agent, wanted=Wanted(dataset))
    other = None
    if METHODS[plan.method].makes_classifier:
        writer = defaults.language_model  # without one, rows that can teach a first model make it
        root = defaults.language_root if writer is not None else settings.BASE_MODEL
        other = replace(defaults, base=writer, root=root).plan(plan.dataset)

    def on_given_rows(one: RunPlan) -> RunPlan:
        default_replay = None if one.replay == heldout else one.replay  # a default yields
        return replace(one, heldout=heldout or one.heldout, replay=replay or default_replay)

    return on_given_rows(plan), on_given_rows(other) if other is not None else None


def start_requested_best(*, by: Actor, dataset: DatasetSnapshot, requested: Mapping[str, Any]) -> dict[str, str]:
    """Starts the candidates on the new decisions that have become a dataset (`training.datasets.freezing.StartRuns`).
    Raises InvalidRun."""
    plan, other = plan_requested(by=by, dataset=dataset, requested=requested)
    job = start_best(by=by, agent=dataset.agent, plan=plan, other=other)
    runs = find_tagged_runs(by.workspace, job.payload["tag"])
    return {"run": str(runs[-1].id), "best": str(job.id)}


def train_best(context: JobContext) -> dict[str, Any] | None:
    """The job's handler. Raises Defer until every run has ended, Permanent where none has made a version."""
    assert context.workspace is not None
    payload, by = context.payload, system(context.workspace)
    runs = find_tagged_runs(context.workspace, payload["tag"])
    going = [run for run in runs if not run.is_terminal]
    if going:
        if context.cancel_requested():
            raise JobCancelled
        if timezone.now() >= dt.datetime.fromisoformat(payload["until"]):
            _stop(by, going)
        ended = len(runs) - len(going) + sum(run.progress for run in going)
        raise Defer(LOOK_AGAIN_SECONDS, progress=ended / len(runs), message=_say_progress(going, len(runs)))
    comparison = read_comparison(runs, payload)
    if comparison.winner is None:
        raise Permanent(comparison.say())
    if payload["retire_others"]:
        _retire_others(replace(by, name=payload["requested_by"]), comparison)
    with context.fenced():
        context.progress(1.0, comparison.say()[:500])
        context.complete({**comparison.as_plain(), "run": str(comparison.winner.run.id)})
    return None


def read_comparison(runs: Sequence[TrainingRun], payload: Mapping[str, Any]) -> Comparison:
    """Compares the runs of a job, some of which may still be going on."""
    left_out = {PolicyKind(kind): reason for kind, reason in payload["left_out"].items()}
    until = dt.datetime.fromisoformat(payload["until"])
    stopped = [run.finished_at for run in runs if run.state == RunState.CANCELLED and run.finished_at is not None]
    return replace(compare_candidates(runs, left_out), note=LATE if any(end >= until for end in stopped) else "")


def end_with_job(job: Job) -> None:
    """Stops the candidates of a job that ends early; versions that were made stay."""
    assert job.workspace is not None
    _stop(system(job.workspace), find_tagged_runs(job.workspace, job.payload["tag"]))


def _stop(by: Actor, runs: Sequence[TrainingRun]) -> None:
    for run in runs:
        if not run.is_terminal and run.state != "stopping":
            with suppress(RunOver):  # it ended by itself in this moment
                cancel_run(by=by, run=run)


def _say_progress(going: Sequence[TrainingRun], total: int) -> str:
    newest = next((run for run in going if run.started_at is not None), going[0])
    return f"{total - len(going)} of {total} candidates trained; {newest.method}: {newest.message or newest.state}"


def _retire_others(by: Actor, comparison: Comparison) -> None:
    """Only versions that were compared with the winner."""
    for line in comparison.lines:
        if line is not comparison.winner and line.version is not None and line.score is not None:
            with suppress(VersionInUse, ArtifactRemoved):  # it serves, another version lies over it, or it has gone
                retire_version(by=by, version=line.version, reason="another candidate was better for its price")
