"""Active queues: the auto-labeler ranks what a queue has found by its doubt, each time that it has learnt.

A queue of the order *uncertainty* ranks what a look finds by the model's own confidence. When the auto-labeler of its
agent has learnt, its job finds more decisions, up to POOL, and ranks all that wait and nobody holds by the classifier's
margin. `decisions.labelling.suggesting` calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django.db import connection, transaction

from decisions.agents.chat_actions import canonical_action
from decisions.labelling.filling import LOOK, fill_queue
from decisions.labelling.material import Row, make_rows
from decisions.labelling.ranking import Candidate, rank_candidates
from decisions.models import Agent, ItemState, LabelQueue, QueueItem, QueueState, QueueStrategy, QueueSubject
from decisions.models.tombstones import NOT_ERASED

POOL = 5_000
"""So many decisions that wait in a queue are ranked, the newest."""

_WAITING = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, NULL, NULL, d.confidence
  FROM decisions_queueitem i JOIN decisions_decision d ON d.id = i.decision_id
 WHERE i.queue_id = %(queue)s AND i.state = 'waiting' AND d.agent_id = %(agent)s AND d.{NOT_ERASED}
 ORDER BY d.id DESC LIMIT %(most)s
"""  # noqa: S608 - our own names
# Only what is free: a reviewer keeps the order of what they hold. A place that is being taken is skipped, so that
# neither waits for the other.
_RANK = """
UPDATE decisions_reservation r SET rank = found.rank
  FROM (SELECT p.id, given.rank FROM decisions_reservation p
          JOIN unnest(%(decisions)s::uuid[], %(ranks)s::float8[]) AS given(id, rank) ON given.id = p.subject
         WHERE p.queue_id = %(queue)s AND p.place IS NOT NULL AND p.label_id IS NULL AND p.holder = ''
           FOR UPDATE OF p SKIP LOCKED) found
 WHERE r.id = found.id
"""


def rank_by_doubt(
    agent: Agent,
    measure: Callable[[Sequence[Row]], list[float]],
    *,
    step: Callable[[], AbstractContextManager[object]] = transaction.atomic,
) -> int:
    """How many decisions were ranked, in all open active queues that ask about the agent. measure: the margin of each,
    in [0, 1]. Each `step` is a transaction."""
    queues = LabelQueue.objects.filter(
        workspace=agent.workspace_id,
        subject=QueueSubject.DECISION,
        state=QueueState.OPEN,
        strategy=QueueStrategy.UNCERTAINTY,
    )
    ranked = 0
    for queue in queues.select_related("workspace"):
        if queue.filters.get("agent", agent.slug) != agent.slug:
            continue
        _find_more(queue, step)
        known: dict[str, Any] = {"queue": queue.id, "agent": agent.id, "most": POOL}
        with connection.cursor() as cursor:
            cursor.execute(_WAITING, known)
            found = cursor.fetchall()
        rows = list(make_rows(agent, [one[:-1] for one in found]))
        candidates = [
            Candidate(row.id, confidence, (agent.id, canonical_action(row.action)), margin=margin)
            for row, (*_, confidence), margin in zip(rows, found, measure(rows), strict=True)
        ]
        ranks = rank_candidates(queue.strategy, candidates, labelled={}, salt=queue.id)
        with step(), connection.cursor() as cursor:
            cursor.execute(_RANK, known | {"decisions": [one.subject for one in candidates], "ranks": ranks})
        ranked += len(candidates)
    return ranked


def _find_more(queue: LabelQueue, step: Callable[[], AbstractContextManager[object]]) -> None:
    waiting = QueueItem.objects.filter(queue=queue, state=ItemState.WAITING)
    for _ in range(POOL // LOOK):
        if waiting[:POOL].count() >= POOL:
            return
        with step():
            filled = fill_queue(queue)
        if filled is not None and not filled[0]:
            return
