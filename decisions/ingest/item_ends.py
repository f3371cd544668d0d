"""Turns an item's end into feedback on each of its decisions, by one statement.

`decisions.ingest.items` does this when a change is reported. A later decision about the item marks the change again
(`mark_late_decisions`, in the transaction that records it), for the next run, at the latest the daily one. Running
twice writes nothing twice: ids and keys follow from change, decision and metric.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection, transaction

from decisions.models.tombstones import NOT_ERASED
from workspaces.models import Workspace
from workspaces.storage.clock import database_now

# A decision and its item's end may be recorded at the same moment without seeing each other, so the daily run checks
# again what was applied since the day before.
OVERLAP = dt.timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class AppliedOutcomes:
    """How many ends of items were looked at, and how many decisions got new feedback."""

    changes: int
    decisions: int


_MARK = """
UPDATE decisions_statuschange SET applied_at = %(now)s
 WHERE id IN (
   SELECT c.id FROM decisions_statuschange c
    WHERE c.outcome <> '' AND {scope} AND (c.applied_at IS NULL OR c.applied_at > %(since)s)
    ORDER BY c.id LIMIT %(limit)s FOR UPDATE)
RETURNING id
"""
# Up to six metrics of one change. The id is a uuid7 from the time and the content.
_APPLY = """
WITH told AS (
  SELECT c.workspace_id, d.id AS decision_id, m.metric, m.value, c.observed_at, c.id AS change_id,
         encode(sha256(convert_to(concat_ws(':', c.id, d.id, m.metric), 'UTF8')), 'hex') AS digest
    FROM decisions_statuschange c
    JOIN decisions_item i ON i.id = c.item_id
    JOIN decisions_decision d ON d.workspace_id = c.workspace_id AND d.item_ref = i.ref AND d.{kept}
    CROSS JOIN LATERAL (VALUES
      ('completion', to_jsonb(c.outcome)), ('cycles', to_jsonb(c.cycles)), ('time_ratio', to_jsonb(c.time_ratio)),
      ('blocked', to_jsonb(c.blocked)), ('abandoned', to_jsonb(c.abandoned)), ('alignment', to_jsonb(c.alignment))
    ) AS m(metric, value)
   WHERE c.id = ANY(%(changes)s) AND m.value IS NOT NULL
), written AS (
  INSERT INTO decisions_feedback
    (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at, idempotency_key, content_hash)
  SELECT (lpad(to_hex(floor(extract(epoch FROM observed_at) * 1000)::bigint), 12, '0') || '7' || substr(digest, 1, 3)
          || '8' || substr(digest, 4, 15))::uuid,
         workspace_id, decision_id, metric, value, 'system', observed_at, %(now)s,
         concat_ws(':', 'outcome', change_id, metric), decode(digest, 'hex')
    FROM told
  ON CONFLICT DO NOTHING RETURNING decision_id
)
SELECT count(DISTINCT decision_id) FROM written
"""
_LATE = """
UPDATE decisions_statuschange SET applied_at = NULL
 WHERE id IN (
   SELECT c.id FROM decisions_statuschange c JOIN decisions_item i ON i.id = c.item_id
    WHERE i.workspace_id = %s AND i.ref = ANY(%s) AND c.outcome <> '' AND c.applied_at IS NOT NULL
    ORDER BY c.id FOR UPDATE OF c)
"""
_WAITING = """
SELECT count(DISTINCT d.id)
  FROM decisions_statuschange c
  JOIN decisions_item i ON i.id = c.item_id
  JOIN decisions_decision d ON d.workspace_id = c.workspace_id AND d.item_ref = i.ref
 WHERE c.workspace_id = %s AND c.outcome <> '' AND c.applied_at IS NULL
"""


@transaction.atomic
def apply_item_outcomes(
    *,
    workspace: Workspace | None = None,
    changes: Sequence[uuid.UUID] | None = None,
    limit: int | None = None,
    again: bool = False,
) -> AppliedOutcomes:
    """What waits, of one workspace or of all; or these `changes`. `limit` bounds the ends of items, None is all.

    `again` includes what was applied within OVERLAP.
    """
    now = database_now()
    scope = ["true"]
    if workspace is not None:
        scope.append("c.workspace_id = %(workspace)s")
    if changes is not None:
        scope.append("c.id = ANY(%(only)s)")
    parameters = {
        "now": now,
        "since": now - OVERLAP if again else "infinity",
        "workspace": workspace.id if workspace is not None else None,
        "only": list(changes) if changes is not None else None,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        # Two statements: the second sees what was committed while the first waited for a row.
        cursor.execute(_MARK.format(scope=" AND ".join(scope)), parameters)
        marked = [row[0] for row in cursor.fetchall()]
        if not marked:
            return AppliedOutcomes(0, 0)
        cursor.execute(_APPLY.format(kept=NOT_ERASED), {"changes": marked, "now": now})
        return AppliedOutcomes(len(marked), int(cursor.fetchone()[0]))


def mark_late_decisions(workspace_id: uuid.UUID, item_refs: Collection[str]) -> None:
    """Ends of these items wait to be applied again. Call in the transaction that records the decisions."""
    if item_refs:
        with connection.cursor() as cursor:
            cursor.execute(_LATE, [workspace_id, sorted(item_refs)])


def count_waiting(workspace: Workspace) -> int:
    """Decisions that an end of their item has yet to reach."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [workspace.id])
        return int(cursor.fetchone()[0])
