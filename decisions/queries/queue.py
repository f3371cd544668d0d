"""The labelling queue: decisions that wait for a label, the most uncertain first."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace

from decisions.models.tombstones import NOT_ERASED
from decisions.queries.browse import NO_VERDICT, QUEUE_LOOK, Filters, NewestDecisions
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits for a label, the most uncertain first. `waiting` counts the whole look; `more`: the ledger goes on."""

    ids: tuple[uuid.UUID, ...]
    waiting: int
    more: bool


def find_labelling_queue(
    workspace: Workspace,
    filters: Filters,
    *,
    size: int,
    without: Collection[uuid.UUID] = (),
    reviewer: uuid.UUID | None = None,
) -> Queue:
    """The next `size` decisions to label, leaving out those that the asker holds already, and what this reviewer has
    skipped. One statement."""
    look = NewestDecisions(workspace, replace(filters, verdict=NO_VERDICT), most=QUEUE_LOOK)
    look.put(NOT_ERASED)
    look.columns.add("confidence")
    if reviewer is not None:
        skipped = "SELECT 1 FROM decisions_skip s WHERE s.decision_id = d.id AND s.reviewer_id = %(reviewer)s"
        look.ask(f"NOT EXISTS ({skipped})", reviewer=reviewer)
    look.values["limit"] = size + len(without)
    rows = look.run(
        "d.id, count(*) OVER ()", "ORDER BY coalesce(d.confidence, 2), d.id DESC LIMIT %(limit)s", judged=True
    )
    ids = tuple(row[0] for row in rows if row[0] not in without)[:size]
    waiting = rows[0][1] if rows else 0
    return Queue(ids, waiting, more=waiting == QUEUE_LOOK)
