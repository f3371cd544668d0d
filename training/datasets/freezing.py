"""The job that freezes an agent's rewarded decisions, or people's labels of them, as a dataset. It reads the whole
ledger, so no request does it.

When it was queued together with runs (`training.runs.new_decisions`), the runs start on the new dataset.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from decisions.models import Agent, AgentVersion, RewardSpec
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from training.datasets.of_labels import snapshot_labels
from training.datasets.snapshots import OTHER_KIND, REBUILT, snapshot_ledger
from training.errors import EmptyDataset, InvalidRun
from training.models import LEDGER_KINDS, DatasetKind, DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.selection import ALL, Filters
from training.rows.shapes_of.shapes import find_versions
from workspaces.access.actors import Actor, system
from workspaces.errors import Conflict, FieldFault, InvalidInput

KIND = "training.freeze_dataset"
REWARDED = (DatasetKind.LOGGED, DatasetKind.TEXT)
"""Kinds of datasets whose rows need a reward; the others hold people's labels."""
MOST_HELD_OUT = 0.5
NEEDED: Mapping[str, str] = {
    DatasetKind.LOGGED: "a reward and an action among options",
    DatasetKind.TEXT: "a reward and a text as its action",
    DatasetKind.LABELLED: "a person's verdict that names the right action",
    DatasetKind.PREFERENCES: "a person's correction",
}
"""What a decision must have to make a row, by kind of dataset."""


class StartRuns(Protocol):
    """Starts the runs that a dataset was queued together with. Runs are built on datasets, so `training.tasks` hands
    the implementation to the job."""

    def __call__(self, *, by: Actor, dataset: DatasetSnapshot, requested: Mapping[str, Any]) -> Mapping[str, str]:
        """Called in the transaction that makes the dataset. Returns what the job's result says of them: at least `run`,
        an ID. Raises InvalidRun."""


def start_freezing(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    kind: str = DatasetKind.LOGGED,
    unused_at: dt.datetime | None = None,
    least_confidence: float | None = None,
    filters: Filters = ALL,
    held_out: float | None = None,
    apart_from: str | None = None,
    negatives: bool = False,
    run: Mapping[str, str | None] | None = None,
    **question: int | None,
) -> Job:
    """`question`: the numbers of another `reward_spec` than the current one, and of one `agent_version` alone.

    `unused_at`: only decisions that no run had learnt from at that moment. `least_confidence`: beside people's labels,
    suggestions of the auto-labeler that are at least so confident make rows; None: none do. `held_out`: about this
    share of the rows becomes a dataset of its own. `apart_from`: as of `snapshot_ledger`. `negatives`: with wrong rows
    that are made up (`training.rows.negatives`). `run`: what `StartRuns` starts on the dataset. Raises InvalidInput
    with every fault.
    """
    faults = find_faults(kind, filters, held_out=held_out, suggestions=least_confidence is not None)
    faults += find_kind_faults(agent, kind)
    faults += find_other_faults(agent, kind, negatives=negatives, reward_spec=question.get("reward_spec"))
    if faults:
        raise InvalidInput("The dataset cannot be made.", faults=faults)
    payload: dict[str, Any] = {"agent": agent.slug, "name": name, "requested_by": by.name, **question}
    if kind != DatasetKind.LOGGED:
        payload["kind"] = str(kind)
    if asked := filters.as_plain():
        payload["filters"] = asked
    if held_out is not None:
        payload["held_out"] = held_out
    if apart_from is not None:
        payload["apart_from"] = apart_from
    if negatives:
        payload["synthetic_negatives"] = True
    if least_confidence is not None:
        payload["least_confidence"] = least_confidence
    if unused_at is not None:
        payload["unused_at"] = unused_at.isoformat()
    if run is not None:
        payload["run"] = dict(run)
    return enqueue_job(kind=KIND, workspace=by.workspace, payload=payload)


def find_faults(kind: str, filters: Filters, *, held_out: float | None, suggestions: bool) -> list[FieldFault]:
    """What is wrong with the question, of any kind of dataset."""
    faults = filters.find_faults()
    if kind not in LEDGER_KINDS:
        faults.append(FieldFault("kind", f"{kind} are not read from decisions", ", ".join(LEDGER_KINDS)))
    rewarded = kind in REWARDED
    if suggestions and rewarded:
        faults.append(FieldFault("suggestions", "given with rewarded decisions", "only with labelled or preferences"))
    if filters.min_reward is not None and not rewarded:
        faults.append(FieldFault("min_reward", "given with people's labels", "only with logged or text"))
    if filters.unjudged and kind != DatasetKind.LOGGED:
        faults.append(FieldFault("unjudged", f"given with {kind} rows", "only with logged"))
    if held_out is not None and not 0.0 < held_out <= MOST_HELD_OUT:
        faults.append(FieldFault("held_out", f"{held_out} is out of range", f"above 0, up to {MOST_HELD_OUT}"))
    return faults


def find_kind_faults(agent: Agent, kind: str) -> list[FieldFault]:
    """Finds why no decision of the agent can make a row of this kind."""
    if kind not in REWARDED or not agent.versions.exists() or find_versions(agent, kind)[0]:
        return []
    other = DatasetKind.TEXT if kind == DatasetKind.LOGGED else DatasetKind.LOGGED
    return [FieldFault("kind", f"for the agent {agent.slug}: {OTHER_KIND[kind]}", other.value)]


def find_other_faults(agent: Agent, kind: str, *, negatives: bool, reward_spec: int | None) -> list[FieldFault]:
    """What is wrong with the rest of the question, which concerns the agent."""
    faults = []
    if negatives and kind == DatasetKind.LABELLED:
        faults.append(FieldFault("synthetic_negatives", "given with right answers", "logged, text or preferences"))
    if reward_spec is not None and kind not in REWARDED:
        faults.append(FieldFault("reward_spec", "given with people's labels", "only with logged or text"))
    elif reward_spec is not None and not agent.reward_specs.filter(number=reward_spec).exists():
        known = agent.reward_specs.order_by("-number").values_list("number", flat=True).first()
        faults.append(FieldFault("reward_spec", f"version {reward_spec} does not exist", f"1 to {known or 'none yet'}"))
    return faults


def start_rebuild(*, by: Actor, dataset: DatasetSnapshot) -> Job:
    """The same question to the ledger as it will be then: a new dataset without what was erased. Raises Conflict for
    rows that did not come from the ledger."""
    if dataset.environment:
        raise Conflict("These rows were drawn from an environment and contain nothing of a person. Draw others there.")
    if dataset.is_imported:
        raise Conflict(
            "These rows were imported, not read from the ledger. Import them again without the person's rows."
        )
    return start_freezing(
        by=by,
        agent=dataset.agent,
        name=f"{dataset.name[: 200 - len(REBUILT)]}{REBUILT}",
        kind=dataset.kind,
        unused_at=_moment(dataset.query),
        least_confidence=dataset.query.get("least_confidence"),
        filters=Filters.from_plain(dataset.query),
        held_out=dataset.query.get("held_out"),
        apart_from=dataset.query.get("apart_from"),
        negatives=bool(dataset.query.get("synthetic_negatives")),
        agent_version=dataset.query.get("agent_version"),
        reward_spec=dataset.reward_spec.number if dataset.reward_spec is not None else None,
    )


def _moment(asked: Mapping[str, Any]) -> dt.datetime | None:
    return dt.datetime.fromisoformat(asked["unused_at"]) if asked.get("unused_at") else None


def freeze_dataset(context: JobContext, *, start_runs: StartRuns) -> dict[str, Any] | None:
    """The job ends in the transaction that makes the dataset: a killed attempt leaves none, and no run."""
    assert context.workspace is not None
    asked = context.payload
    agent = Agent.objects.for_workspace(context.workspace).select_related("workspace").get(slug=asked["agent"])
    number = asked.get("agent_version")
    version = agent.versions.get(number=number) if number is not None else None
    by = replace(system(context.workspace), name=asked["requested_by"])

    def end(made: list[DatasetSnapshot]) -> None:
        dataset, *held_out = made
        result = {"dataset": str(dataset.id), "rows": dataset.rows}
        if held_out:
            result["held_out"] = str(held_out[0].id)
        if asked.get("run"):
            result |= start_runs(by=by, dataset=dataset, requested=asked["run"])
        with context.fenced():
            context.complete(result)

    try:
        _freeze(context, by, agent, version, end)
    except EmptyDataset as error:
        if any(fault.field == "held_out" for fault in error.faults):
            raise Permanent(f"{error.message} {error.faults[0].reason}.") from error
        used = " that no run has learnt from" if asked.get("unused_at") else ""
        raise Permanent(f"{error.message} No decision{used} has {NEEDED[_kind(asked)]}.") from error
    except InvalidRun as error:
        faults = "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)
        raise Permanent(f"{error.message} {faults}. No dataset was made.") from error
    return None


def _kind(asked: Mapping[str, Any]) -> DatasetKind:
    return DatasetKind(asked.get("kind", DatasetKind.LOGGED))


def _freeze(
    context: JobContext,
    by: Actor,
    agent: Agent,
    version: AgentVersion | None,
    end: Callable[[list[DatasetSnapshot]], None],
) -> None:
    """Raises EmptyDataset."""
    asked = context.payload
    spec = asked.get("reward_spec")
    freeze_rows(
        by=by,
        agent=agent,
        name=asked["name"],
        kind=_kind(asked),
        agent_version=version,
        reward_spec=agent.reward_specs.get(number=spec) if spec is not None else None,
        unused_at=_moment(asked),
        least_confidence=asked.get("least_confidence"),
        filters=Filters.from_plain(asked.get("filters", {})),
        held_out=asked.get("held_out"),
        apart_from=asked.get("apart_from"),
        negatives=bool(asked.get("synthetic_negatives")),
        note_progress=context.note_progress,
        on_made=end,
    )


def freeze_rows(
    *,
    kind: DatasetKind,
    agent_version: AgentVersion | None = None,
    reward_spec: RewardSpec | None = None,
    unused_at: dt.datetime | None = None,
    least_confidence: float | None = None,
    filters: Filters = ALL,
    apart_from: str | None = None,
    negatives: bool = False,
    **asked: Any,
) -> DatasetSnapshot:
    """Of any kind: rewarded decisions (`training.datasets.snapshots.snapshot_ledger`), or people's labels, which have
    no `reward_spec` (`training.datasets.of_labels.snapshot_labels`). Raises EmptyDataset."""
    if kind not in REWARDED:
        question = LabelQuestion(kind, agent_version, unused_at, least_confidence, filters, negatives)
        return snapshot_labels(**asked, question=question)
    return snapshot_ledger(
        **asked,
        kind=kind,
        agent_version=agent_version,
        reward_spec=reward_spec,
        unused_at=unused_at,
        filters=filters,
        apart_from=apart_from,
        negatives=negatives,
    )
