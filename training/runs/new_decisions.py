"""*Train on new decisions*: freezes the decisions that no run has learnt from, and has the best policy trained on them.

The job is that of any dataset (`training.datasets.freezing`). The runs start in the transaction that makes the dataset
(`training.loops.best`), with the defaults of its agent (`training.runs.defaults`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.models import Agent
from jobs.models import Job, JobState
from models_registry.models import Alias, AliasName, ModelVersion
from training.datasets.freezing import KIND, start_freezing
from training.datasets.preview import Preview, preview_datasets
from training.engine.spec.methods import METHODS
from training.errors import InvalidRun
from training.models import DatasetKind, DatasetSnapshot
from training.rows.selection import Filters
from training.runs.defaults.values import FROM_LOGS, Defaults, choose_settings, find_defaults
from training.runs.services import RunPlan, check_plan
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault
from workspaces.models import Workspace

AGENTS = 20
FEW = 500
"""Below so many decisions a run seldom shows a gain (docs/learning.md)."""
ASKED = Filters(unjudged=METHODS[FROM_LOGS].learns_unjudged)
"""Of the ledger, for the method of choice."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether an agent's new decisions can be trained on, and with what. `under_way`: the job that is doing it.
    `champion`: who answers, which another server may hold."""

    agent: Agent
    defaults: Defaults
    preview: Preview
    under_way: Job | None
    champion: ModelVersion | None = None

    @property
    def writes(self) -> bool:
        """The preview counts its rewarded texts then, and a run starts from a dataset of them, as its method is to be
        chosen."""
        return self.defaults.writes

    @property
    def ready(self) -> bool:
        has_base = self.defaults.base is not None and not self.writes
        return self.under_way is None and has_base and self.preview.rows > 0

    @property
    def heldout(self) -> DatasetSnapshot | None:
        """What the run would be measured on."""
        return self.defaults.heldout or self.defaults.kept_apart

    @property
    def few(self) -> bool:
        return self.preview.rows - self.preview.unjudged < FEW


def find_readiness(workspace: Workspace) -> list[Readiness]:
    """Reads the readiness of the first AGENTS agents by name. Nine statements, and two more where some write, however
    many agents and decisions there are."""
    agents = list(Agent.objects.for_workspace(workspace).order_by("name")[:AGENTS])
    defaults = find_defaults(workspace, agents)
    now = timezone.now()
    writing = [one for one in agents if defaults[one.id].writes]
    previews = preview_datasets([one for one in agents if one not in writing], unused_at=now, filters=ASKED)
    previews |= preview_datasets(writing, kind=DatasetKind.TEXT, unused_at=now)
    under_way = {job.payload["agent"]: job for job in _find_under_way(workspace)}
    serving = Alias.objects.filter(registered_model__in=[one.registered_model_id for one in agents])
    named = serving.filter(name=AliasName.CHAMPION).select_related("version__registered_model")
    champions = {alias.registered_model_id: alias.version for alias in named}
    return [
        Readiness(
            one,
            defaults[one.id],
            previews[one.id],
            under_way.get(one.slug),
            champions.get(one.registered_model_id),
        )
        for one in agents
    ]


def _find_under_way(workspace: Workspace) -> Sequence[Job]:
    """Jobs that make a dataset and then start a run, newest last."""
    return list(
        Job.objects.for_workspace(workspace)
        .filter(kind=KIND, state__in=(JobState.QUEUED, JobState.RUNNING), payload__has_key="run")
        .order_by("id")
    )


@transaction.atomic
def request_training(*, by: Actor, agent: Agent) -> Job:
    """The agent's training on new decisions that waits or works, or a new one. Raises InvalidRun where no run could
    start on such a dataset."""
    # A simultaneous request waits here, and finds the first one's job.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    for job in _find_under_way(by.workspace):
        if job.payload["agent"] == agent.slug:
            return job
    now = timezone.now()
    defaults = find_defaults(by.workspace, [agent])[agent.id]
    if defaults.writes:
        fault = FieldFault("agent", f"{agent.name} writes texts", "a run on a dataset of the kind text")
        raise InvalidRun("New decisions of texts are trained on as a dataset of their own.", faults=[fault])
    to_come = DatasetSnapshot(workspace_id=agent.workspace_id, agent=agent, kind=DatasetKind.LOGGED, rows=0)
    plan = defaults.plan(to_come)
    if plan is None or plan.base_version is None:
        fault = FieldFault("base_version", f"{agent.name} has no version", "a run on labelled rows makes the first")
        raise InvalidRun("There is no model to train yet.", faults=[fault])
    base = plan.base_version
    if plan.heldout is None:
        plan = replace(plan, heldout=defaults.kept_apart)
    check_plan(agent, plan)
    apart = plan.heldout if plan.heldout is not None and not plan.heldout.is_imported else None
    job = start_freezing(
        by=by,
        agent=agent,
        name=f"New decisions of {agent.name}, {now:%-d %b %Y %H:%M:%S}"[:200],
        unused_at=now,
        filters=ASKED,
        apart_from=str(apart.id) if apart is not None else None,
        run={
            "method": plan.method,
            "root": defaults.root,
            "base_version": str(base.id),
            "language_model": str(defaults.language_model.id) if defaults.language_model is not None else None,
            "language_root": defaults.language_root,
            "heldout": str(plan.heldout.id) if plan.heldout is not None else None,
            "replay": str(plan.replay.id) if plan.replay is not None else None,
        },
    )
    record_audit(by=by, action="run.requested", target=f"job:{job.id}", details={"agent": agent.slug})
    return job


def plan_requested(
    *, by: Actor, dataset: DatasetSnapshot, requested: Mapping[str, Any]
) -> tuple[RunPlan, RunPlan | None]:
    """What `request_training` asked for, on the dataset that the job has made, and where that trains a classifier, how
    a language model would learn from it. What they were to learn with may have gone since."""
    labelled = DatasetSnapshot.objects.for_workspace(by.workspace).in_bulk(
        [pk for name in ("heldout", "replay") if (pk := requested[name])]
    )
    rows = {str(pk): found for pk, found in labelled.items()}
    replay = rows.get(requested["replay"] or "")
    versions = ModelVersion.objects.for_workspace(by.workspace).select_related(
        "artifact", "registered_model", "base__artifact", "base__registered_model"
    )

    def plan(method: str, root: str, base: str) -> RunPlan:
        total = dataset.rows + (replay.rows if replay is not None else 0)
        agent_version = find_current_version(dataset.agent)
        return RunPlan(
            method=method,
            dataset=dataset,
            base_version=versions.filter(id=base).first(),
            heldout=rows.get(requested["heldout"] or ""),
            replay=replay,
            settings=choose_settings(method, root=root, rows=total, agent_version=agent_version),
        )

    main = plan(requested["method"], requested["root"] or "", requested["base_version"])
    language = requested.get("language_model")
    other = plan(FROM_LOGS, requested.get("language_root") or "", language) if language else None
    return main, other
