"""The job that freezes an agent's rewarded decisions as a dataset. It reads the whole ledger, so no request does it.

When it was queued together with a run (`training.new_decisions`), it starts that run on the new dataset.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decisions.models import Agent
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from models_registry.models import ModelVersion
from training.datasets import REBUILT, snapshot_ledger
from training.defaults import choose_settings
from training.errors import EmptyDataset, InvalidRun
from training.models import DatasetKind, DatasetSnapshot, TrainingRun
from training.runs import RunPlan, start_run
from workspaces.actors import Actor, system
from workspaces.errors import Conflict

KIND = "training.freeze_dataset"


def start_freezing(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    unused_at: dt.datetime | None = None,
    run: Mapping[str, str | None] | None = None,
    **question: int | None,
) -> Job:
    """`question`: the numbers of another `reward_spec` than the current one, and of one `agent_version` alone.

    `unused_at`: only decisions that no run had learnt from at that moment. `run`: what to start on the dataset, the
    method, the root of the base (`training.defaults`) and the ids of base_version, heldout and replay.
    """
    payload: dict[str, Any] = {"agent": agent.slug, "name": name, "requested_by": by.name, **question}
    if unused_at is not None:
        payload["unused_at"] = unused_at.isoformat()
    if run is not None:
        payload["run"] = dict(run)
    return enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)


def start_rebuild(*, by: Actor, dataset: DatasetSnapshot) -> Job:
    """The same question to the ledger as it will be then: a new dataset without what was erased. Raises Conflict for
    rows that did not come from the ledger."""
    if dataset.kind != DatasetKind.LOGGED or dataset.reward_spec is None:
        raise Conflict("These rows were imported, not read from the ledger: import them again without the person's.")
    return start_freezing(
        by=by,
        agent=dataset.agent,
        name=f"{dataset.name[: 200 - len(REBUILT)]}{REBUILT}",
        unused_at=_moment(dataset.query),
        agent_version=dataset.query.get("agent_version"),
        reward_spec=dataset.reward_spec.number,
    )


def _moment(asked: Mapping[str, Any]) -> dt.datetime | None:
    return dt.datetime.fromisoformat(asked["unused_at"]) if asked.get("unused_at") else None


def freeze_dataset(context: JobContext) -> dict[str, Any] | None:
    """The job ends in the transaction that makes the dataset: a killed attempt leaves none, and no run."""
    assert context.workspace is not None
    asked = context.payload
    agent = Agent.objects.for_workspace(context.workspace).select_related("workspace").get(slug=asked["agent"])
    version, spec = asked.get("agent_version"), asked.get("reward_spec")
    by = replace(system(context.workspace), name=asked["requested_by"])

    def end(dataset: DatasetSnapshot) -> None:
        result = {"dataset": str(dataset.id), "rows": dataset.rows}
        if asked.get("run"):
            result["run"] = str(_start_run(by, dataset, asked["run"]).id)
        with context.fenced():
            context.complete(result)

    try:
        snapshot_ledger(
            by=by,
            agent=agent,
            name=asked["name"],
            agent_version=agent.versions.get(number=version) if version is not None else None,
            reward_spec=agent.reward_specs.get(number=spec) if spec is not None else None,
            unused_at=_moment(asked),
            note_progress=context.note_progress,
            on_made=end,
        )
    except EmptyDataset as error:
        used = " that no run has learnt from" if asked.get("unused_at") else ""
        raise Permanent(f"{error.message} No decision has both a propensity and a reward{used}.") from error
    except InvalidRun as error:
        faults = "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)
        raise Permanent(f"{error.message} {faults}. No dataset was made.") from error
    return None


def _start_run(by: Actor, dataset: DatasetSnapshot, asked: Mapping[str, Any]) -> TrainingRun:
    """Raises InvalidRun: what it was to learn with may have gone since it was asked for."""
    labelled = DatasetSnapshot.objects.for_workspace(by.workspace).in_bulk(
        [pk for name in ("heldout", "replay") if (pk := asked[name])]
    )
    rows = {str(pk): found for pk, found in labelled.items()}
    replay = rows.get(asked["replay"] or "")
    plan = RunPlan(
        method=asked["method"],
        dataset=dataset,
        base_version=ModelVersion.objects.for_workspace(by.workspace)
        .select_related("artifact")
        .filter(id=asked["base_version"])
        .first(),
        heldout=rows.get(asked["heldout"] or ""),
        replay=replay,
        settings=choose_settings(
            asked["method"],
            root=asked["root"] or "",
            rows=dataset.rows + (replay.rows if replay is not None else 0),
            agent_version=dataset.agent.versions.first(),
        ),
    )
    return start_run(by=by, agent=dataset.agent, plan=plan)
