"""The job that freezes an agent's rewarded decisions as a dataset: it goes through the ledger, as no request should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decisions.models import Agent
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from training.datasets import REBUILT, snapshot_ledger
from training.errors import EmptyDataset
from training.models import DatasetKind, DatasetSnapshot
from workspaces.actors import Actor, system
from workspaces.errors import Conflict

KIND = "training.freeze_dataset"


def start_freezing(*, by: Actor, agent: Agent, name: str, **question: int | None) -> Job:
    """`question`: the numbers of another `reward_spec` than the current one, and of one `agent_version` alone."""
    payload = {"agent": agent.slug, "name": name, "requested_by": by.name, **question}
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
        agent_version=dataset.query.get("agent_version"),
        reward_spec=dataset.reward_spec.number,
    )


def freeze_dataset(context: JobContext) -> dict[str, Any] | None:
    """The job ends in the transaction that makes the dataset: a killed attempt leaves none."""
    assert context.workspace is not None
    asked = context.payload
    agent = Agent.objects.for_workspace(context.workspace).select_related("workspace").get(slug=asked["agent"])
    version, spec = asked.get("agent_version"), asked.get("reward_spec")

    def end(dataset: DatasetSnapshot) -> None:
        with context.fenced():
            context.complete({"dataset": str(dataset.id), "rows": dataset.rows})

    try:
        snapshot_ledger(
            by=replace(system(context.workspace), name=asked["requested_by"]),
            agent=agent,
            name=asked["name"],
            agent_version=agent.versions.get(number=version) if version is not None else None,
            reward_spec=agent.reward_specs.get(number=spec) if spec is not None else None,
            tell=context.tell,
            on_made=end,
        )
    except EmptyDataset as error:
        raise Permanent(f"{error.message} No decision has both a propensity and a reward.") from error
    return None
