"""Freezes people's labels as datasets: labelled rows with the right action, or preference pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from django.db import transaction

from decisions.erasure.erasing import hold_off_erasures
from decisions.models import Agent
from training.datasets import FETCH, share_of_time, store_rows
from training.errors import EmptyDataset
from training.label_rows import SUGGESTION, LabelQuestion, read_label_rows
from training.models import DatasetItem, DatasetKind, DatasetSnapshot
from workspaces.actors import Actor
from workspaces.errors import FieldFault
from workspaces.services import record_audit


def snapshot_labels(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    question: LabelQuestion,
    note_progress: Callable[[float, str], None] = lambda fraction, message: None,
    on_made: Callable[[DatasetSnapshot], None] = lambda dataset: None,
) -> DatasetSnapshot:
    """A row for each decision of which a person's verdict names the right action; of preference pairs, for each that
    names another than the agent's. Needs neither propensity nor reward. Raises EmptyDataset.

    `statistics`, and the manifest of the files, count the rows by source; `left_out` counts decisions by the keys of
    `training.dataset_preview.WHY`. `note_progress` and `on_made` are as for `snapshot_ledger`.
    """
    items: list[str] = []
    sources, verdicts, left_out = Counter[str](), Counter[str](), Counter[str]()
    without_options = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal without_options
        for told, row in read_label_rows(agent, question):
            if isinstance(row, str):
                left_out[row] += 1
                continue
            items.append(row["id"])
            sources[row["source"]] += 1
            if told.verdict is not None:
                verdicts[told.verdict] += 1
            without_options += question.kind == DatasetKind.LABELLED and "options" not in row
            if len(items) % FETCH == 0:
                note_progress(share_of_time(items[0], items[-1]), f"{len(items):,} rows")
            yield row

    with transaction.atomic():
        # What is read here and written below must see the same erasures.
        hold_off_erasures(by.workspace)
        # The sources are counted by the time that the manifest is written.
        artifact = store_rows(by, rows(), meta={"kind": question.kind, "agent": agent.slug, "sources": sources})
        if artifact is None:
            says = "a correction" if question.kind == DatasetKind.PREFERENCES else "a person's verdict"
            raise EmptyDataset(
                "There are no labels to train on yet.",
                faults=[FieldFault("agent", f"no decision has {says}", "labels")],
            )
        dataset = DatasetSnapshot.objects.create(
            workspace=by.workspace,
            agent=agent,
            name=name,
            kind=question.kind,
            artifact=artifact,
            rows=len(items),
            query=_as_query(agent, question),
            statistics={
                "sources": dict(sources),
                "suggested": sources[SUGGESTION],
                "verdicts": dict(verdicts),
                "left_out": dict(left_out),
                **({"without_options": without_options} if without_options else {}),
            },
        )
        DatasetItem.objects.bulk_create(
            [DatasetItem(dataset=dataset, decision_id=row) for row in items], batch_size=5000
        )
        record_audit(by=by, action="dataset.created", target=f"dataset:{dataset.id}", details={"rows": len(items)})
        on_made(dataset)
    return dataset


def _as_query(agent: Agent, question: LabelQuestion) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": agent.slug}
    if question.agent_version is not None:
        told["agent_version"] = question.agent_version.number
    if question.unused_at is not None:
        told["unused_at"] = question.unused_at.isoformat()
    if question.least_confidence is not None:
        told["least_confidence"] = question.least_confidence
    return told
