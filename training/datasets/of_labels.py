"""Freezes people's labels as datasets: labelled rows with the right action, or preference pairs."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db import transaction

from decisions.erasure.erasing import hold_off_erasures
from decisions.models import Agent
from training.datasets.snapshots import share_of_time
from training.errors import EmptyDataset
from training.models import DatasetKind, DatasetSnapshot
from training.rows.labels import LabelQuestion, read_label_rows
from training.rows.parts import Entry, save_parts, write_parts
from training.rows.selection import FETCH
from training.rows.splitting import task_of, text_of
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault


def snapshot_labels(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    question: LabelQuestion,
    held_out: float | None = None,
    note_progress: Callable[[float, str], None] = lambda fraction, message: None,
    on_made: Callable[[list[DatasetSnapshot]], None] = lambda made: None,
) -> DatasetSnapshot:
    """A row for each decision of which a person's verdict names the right action; of preference pairs, for each that
    names another than the agent's. Needs neither propensity nor reward. Raises EmptyDataset.

    `statistics`, and the manifest of the files, count the rows by source; `left_out` counts decisions by the keys of
    `training.datasets.preview.WHY`. `held_out`, `note_progress` and `on_made` are as for `snapshot_ledger`.
    """
    left_out = Counter[str]()

    def entries() -> Iterator[Entry]:
        first: uuid.UUID | None = None
        count = 0
        with closing(read_label_rows(agent, question)) as found:
            for judged in found:
                if isinstance(judged.rows, str):
                    left_out[judged.rows] += 1
                    continue
                decision = judged.told.decision
                first, count = first or decision, count + 1
                if count % FETCH == 0:
                    note_progress(share_of_time(first, decision), f"{count:,} rows")
                text = text_of(judged.state) if held_out is not None else ""
                task = task_of(judged.state)
                yield Entry(decision, judged.rows, None, judged.unit, judged.episode, text, task=task)

    # What is read here and written below must see the same erasures.
    with transaction.atomic(), tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as folder:
        hold_off_erasures(by.workspace)
        try:
            parts = write_parts(entries(), Path(folder), held_out=held_out)
        except EmptyDataset as error:
            if error.faults:
                raise
            says = "a correction" if question.kind == DatasetKind.PREFERENCES else "a person's verdict"
            raise EmptyDataset(
                "There are no labels to train on yet.",
                faults=[FieldFault("agent", f"no decision has {says}", "labels")],
            ) from error
        made = save_parts(
            parts,
            by=by,
            agent=agent,
            name=name,
            kind=question.kind,
            query=_as_query(agent, question, held_out),
            left_out=left_out,
        )
        on_made(made)
    return made[0]


def _as_query(agent: Agent, question: LabelQuestion, held_out: float | None) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": agent.slug, **question.filters.as_plain()}
    if question.agent_version is not None:
        told["agent_version"] = question.agent_version.number
    if question.unused_at is not None:
        told["unused_at"] = question.unused_at.isoformat()
    if question.least_confidence is not None:
        told["least_confidence"] = question.least_confidence
    if held_out is not None:
        told["held_out"] = held_out
    if question.negatives:
        told["synthetic_negatives"] = True
    return told
