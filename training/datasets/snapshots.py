"""Freezes decisions of the ledger as datasets, and stores imported rows. A dataset never changes; its rows name their
decision and reward version."""

from __future__ import annotations

import datetime as dt
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from decisions.erasure.erasing import hold_off_erasures
from decisions.models import Agent, AgentVersion, Decision, RewardSpec
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.quota import refuse_over_quota
from models_registry.models import ArtifactKind
from models_registry.versions.services import store_artifact
from training.errors import EmptyDataset
from training.models import DatasetItem, DatasetKind, DatasetSnapshot
from training.rows.parts import Entry, Part, save_parts, write_parts
from training.rows.selection import ALL, FETCH, Filters, Question, Rewarded, read_rewarded, read_unjudged
from training.rows.shapes_of.shapes import find_versions
from training.rows.splitting import task_of, text_of
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault
from workspaces.storage.ids import uuid7_time

REBUILT = " (rebuilt)"
OTHER_KIND: Mapping[str, str] = {
    DatasetKind.LOGGED: "its actions are texts: create a dataset of texts",
    DatasetKind.TEXT: "its actions are choices or rankings: create a dataset of rewarded decisions",
}


def snapshot_ledger(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    kind: str = DatasetKind.LOGGED,
    agent_version: AgentVersion | None = None,
    reward_spec: RewardSpec | None = None,
    unused_at: dt.datetime | None = None,
    filters: Filters = ALL,
    held_out: float | None = None,
    apart_from: str | None = None,
    negatives: bool = False,
    note_progress: Callable[[float, str], None] = lambda fraction, message: None,
    on_made: Callable[[list[DatasetSnapshot]], None] = lambda made: None,
) -> DatasetSnapshot:
    """Every rewarded decision of the agent, or of one version of it, by the current reward spec or by another: logged
    rows of choices and rankings, or rows of texts. With `filters.unjudged` the newest decisions that nobody judged come
    after them, at most as many; none of these is held out. Raises EmptyDataset.

    `unused_at`: only decisions that no run had learnt from at that moment. A moment, not "now": asked again after the
    run that the dataset was made for, the question still finds its rows.
    `held_out`: about this share of the rows, in (0, 1), becomes a dataset of its own (`training.rows.splitting`).
    `apart_from`: none that belongs together with a decision of the dataset of this id, on which models are measured.
    `negatives`: wrong rows that are made up stand beside right ones (`training.rows.negatives`).
    Decisions that make no row are counted as `left_out`, by the keys of `training.datasets.preview.WHY`.
    `note_progress` hears how far it is; `on_made` is called in the transaction that makes the dataset and the one held
    out, and may undo it.
    """
    refuse_over_quota(by.workspace)
    spec = reward_spec or current_reward_spec(agent)
    versions, shapes = find_versions(agent, kind, agent_version)
    if not versions:
        raise _empty(agent, OTHER_KIND[kind])
    left_out = Counter[str]()
    query = {
        "agent": agent.slug,
        "reward_spec": spec.number,
        **({"agent_version": agent_version.number} if agent_version is not None else {}),
        **({"unused_at": unused_at.isoformat()} if unused_at is not None else {}),
        **filters.as_plain(),
        **({"held_out": held_out} if held_out is not None else {}),
        **({"apart_from": apart_from} if apart_from is not None else {}),
        **({"synthetic_negatives": True} if negatives else {}),
    }

    asked = Question(agent, spec, versions, filters, unused_at)
    apart = _read_apart(apart_from)

    def entries() -> Iterator[Entry]:
        count = 0
        with closing(read_rewarded(asked)) as found:
            for entry in write_entries(found):
                count += 1
                yield entry
        if filters.unjudged:
            with closing(read_unjudged(asked, most=count)) as found:
                yield from write_entries(found)

    def write_entries(found: Iterable[Rewarded]) -> Iterator[Entry]:
        first: uuid.UUID | None = None
        for count, decision in enumerate(found, start=1):
            rows = shapes[decision.version.id].write_rows(decision)
            if isinstance(rows, str):
                left_out[rows] += 1
                continue
            first = first or decision.id
            if count % FETCH == 0:
                note_progress(share_of_time(first, decision.id), f"{count:,} rows")
            text = text_of(decision.state) if held_out is not None or apart else ""
            version, judged = decision.reward_version, decision.reward is not None
            task = task_of(decision.state)
            yield Entry(decision.id, rows, version, decision.unit, decision.episode, text, judged, task)

    # What is read here and written below must see the same erasures.
    with transaction.atomic(), tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as folder:
        hold_off_erasures(by.workspace)
        try:
            parts = write_parts(entries(), Path(folder), held_out=held_out, negatives=negatives, apart=apart)
        except EmptyDataset as error:
            if error.faults:
                raise
            raise _empty(agent, "no decision that matches has a reward and makes a row") from error
        for why, count in (("held_out", sum(part.set_aside for part in parts)), ("apart", parts[0].apart)):
            left_out.update({why: count} if count else {})
        made = save_parts(
            parts,
            by=by,
            agent=agent,
            name=name,
            kind=kind,
            query=query,
            left_out=left_out,
            reward_spec=spec,
        )
        on_made(made)
    return made[0]


def _read_apart(dataset: str | None) -> list[Entry]:
    """The decisions behind a dataset, without rows."""
    if dataset is None:
        return []
    items = DatasetItem.objects.filter(dataset_id=uuid.UUID(dataset)).values_list("decision_id", flat=True)
    found = Decision.objects.filter(id__in=list(items)).values_list("id", "unit", "episode_id", "state")
    return [
        Entry(pk, [], None, unit, episode, text_of(state), task=task_of(state)) for pk, unit, episode, state in found
    ]


def _empty(agent: Agent, reason: str) -> EmptyDataset:
    return EmptyDataset(
        "There are no rows to train on yet.", faults=[FieldFault("agent", reason, "feedback, then rewards")]
    )


def share_of_time(first: uuid.UUID, now_at: uuid.UUID) -> float:
    """How far the second decision lies between the first and this moment: they are read in the order of time."""
    begin, here = uuid7_time(first), uuid7_time(now_at)
    if begin is None or here is None:
        return 0.0
    return (here - begin) / max(timezone.now() - begin, dt.timedelta(seconds=1))


def import_rows(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    kind: DatasetKind,
    rows: Iterable[Mapping[str, Any]],
    on_made: Callable[[DatasetSnapshot], None] = lambda dataset: None,
) -> DatasetSnapshot:
    """Rows of this kind (training.engine.rows.types) from outside the ledger; logged ones count as rewarded by the
    agent's current spec. Raises EmptyDataset.

    `on_made` is called in the transaction that makes the dataset, and may undo it.
    """
    refuse_over_quota(by.workspace)
    with tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as folder:
        part = Part(Path(folder) / "all")
        for row in rows:
            part.write(row)
        part.close()
        if not part.tally.rows:
            raise EmptyDataset(f"The {kind} file has no rows.", faults=[FieldFault("rows", "none", "at least one row")])
        meta = {"kind": kind, "agent": agent.slug}
        artifact = store_artifact(workspace=by.workspace, folder=part.folder, kind=ArtifactKind.DATASET, meta=meta)
    with transaction.atomic():
        dataset = DatasetSnapshot.objects.create(
            workspace=by.workspace,
            agent=agent,
            name=name,
            kind=kind,
            reward_spec=current_reward_spec(agent) if kind == DatasetKind.LOGGED else None,
            artifact=artifact,
            rows=part.tally.rows,
            statistics=part.tally.as_plain() | part.tally.cuts_for(agent),
        )
        record_audit(by=by, action="dataset.imported", target=f"dataset:{dataset.id}", details={"rows": dataset.rows})
        on_made(dataset)
    return dataset


def import_labelled(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    rows: Iterable[Mapping[str, Any]],
    on_made: Callable[[DatasetSnapshot], None] = lambda dataset: None,
) -> DatasetSnapshot:
    """Inputs with the right answer: {id, prompt, options, answer, group?} each; else as `import_rows`."""
    return import_rows(by=by, agent=agent, name=name, kind=DatasetKind.LABELLED, rows=rows, on_made=on_made)
