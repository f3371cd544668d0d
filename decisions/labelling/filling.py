"""Finds decisions for a queue and makes their places. `decisions.labelling.reservations` calls it when none is left.

The ledger may hold millions of decisions. So a queue looks at a fixed number at a time, by the index of ids: what is
newer than everything it has looked at, then what is older. A sequential queue begins with the oldest decision and only
goes on. What was imported or sent late has an older id than decisions that were looked at before it: it is found by the
server's time of its arrival. What a look finds is ranked once and becomes items, with `overlap` places each.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from decisions.labelling.ranking import Candidate, Cell, rank_candidates
from decisions.labelling.wording import text_of
from decisions.models import LabelQueue, QueueItem, QueueStrategy, Reservation
from decisions.models.tombstones import NOT_ERASED
from decisions.queries.browse import FILTERS, NO_VERDICT, Filters, NewestDecisions
from decisions.queries.by_name import FIRST
from workspaces.ids import uuid7_bound

LOOK = 500
"""How many decisions one look walks."""
MOST_LOOKS = 8
"""After so many looks without a find the caller has to ask again."""
SETTLED = dt.timedelta(seconds=10)
"""A decision may be committed after others with larger ids: what is younger than this is looked at again."""
COMMITTED = dt.timedelta(minutes=1)
"""Within this time of its arrival a late decision is committed: what arrived later is looked at again."""
NEWEST_LABELS = 2_000
"""How many labels of the workspace say which cells are labelled."""


def filters_of(queue: LabelQueue) -> Filters:
    """Without a verdict of its own, a queue asks about decisions that have none."""
    given = {name: value for name, value in queue.filters.items() if name in FILTERS}
    return Filters(**{"verdict": NO_VERDICT} | given)


@transaction.atomic
def fill_queue(queue: LabelQueue, *, only_new: bool = False) -> tuple[int, bool] | None:
    """How many items were added, and whether there is more of the ledger to look at. One look at what arrived late,
    then at most MOST_LOOKS looks, until one has found something. With `only_new`, one look at newer decisions. None
    where somebody else has filled the queue since `queue` was read: what they found may be free. `queue` then says
    when."""
    locked = LabelQueue.objects.select_for_update(of=("self",), no_key=True).get(id=queue.id)
    if locked.filled_at != queue.filled_at:
        queue.filled_at = locked.filled_at
        return None
    queue.filled_at = locked.filled_at = timezone.now()
    if locked.newest is None:  # what arrived until now is found by its id
        locked.late_at = locked.filled_at - COMMITTED
    added, late = _look_at_late(locked)
    more, directions = True, ["newer"] if only_new else ["newer", "older"]
    if locked.strategy == QueueStrategy.SEQUENTIAL:
        locked.newest, directions = locked.newest or FIRST, ["newer"]
    for _ in range(1 if only_new else MOST_LOOKS):
        if added or not more:
            break
        more = False
        for direction in directions:
            found, whole = _look(locked, newer=direction == "newer")
            added, more = added + found, more or whole
            if found:
                break
    locked.save(update_fields=["newest", "oldest", "late_at", "late_id", "filled_at"])
    return added, bool(added) or more or late


def _look(queue: LabelQueue, *, newer: bool) -> tuple[int, bool]:
    """One look in one direction: items added, and whether the ledger went on behind it. Moves the queue's bounds."""
    if newer and queue.newest is None:
        return 0, False
    look = _start_look(queue, ascending=newer)
    if newer:
        look.put("id > %(newest)s", newest=queue.newest)
    elif queue.oldest is not None:
        look.put("id < %(oldest)s", oldest=queue.oldest)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT array_agg(id ORDER BY id) FROM ({look.walk('id')}) d", look.values)  # noqa: S608
        walked: list[uuid.UUID] = cursor.fetchone()[0] or []
    if not walked:
        return 0, False
    look.put("id BETWEEN %(low)s AND %(high)s", low=walked[0], high=walked[-1])
    settled = min(walked[-1], uuid7_bound(timezone.now() - SETTLED))
    if newer or queue.newest is None:
        queue.newest = max(settled, queue.newest or FIRST)
    if not newer:
        queue.oldest = walked[0]
    return _add(queue, look), len(walked) == LOOK


# An id that is older than its arrival: the first 48 bits of a uuid7 are its milliseconds.
_LATE = """
SELECT id, recorded_at FROM decisions_decision
 WHERE {inside} AND recorded_at >= %(late_at)s AND (recorded_at, id) > (%(late_at)s, %(late_id)s)
   AND id > %(oldest)s AND id <= %(newest)s
   AND id < (lpad(to_hex((extract(epoch FROM recorded_at - %(settled)s) * 1000)::bigint), 12, '0')
             || repeat('0', 20))::uuid
 ORDER BY recorded_at, id LIMIT %(most)s
"""


def _look_at_late(queue: LabelQueue) -> tuple[int, bool]:
    """One look, in the order of arrival, at decisions whose ids the other looks have passed already: items added, and
    whether there were more than one look's."""
    if queue.newest is None:
        return 0, False
    since, now = queue.late_at or queue.created_at, timezone.now()
    look = _start_look(queue)
    arrived: dict[str, Any] = {"late_at": since, "late_id": queue.late_id or FIRST, "settled": SETTLED}
    bounds = {"oldest": queue.oldest or FIRST, "newest": queue.newest}
    with connection.cursor() as cursor:
        cursor.execute(_LATE.format(inside=" AND ".join(look.inside)), {**look.values, **arrived, **bounds})
        late: list[tuple[uuid.UUID, dt.datetime]] = cursor.fetchall()
    if len(late) == LOOK:
        queue.late_id, queue.late_at = late[-1]
    else:
        queue.late_id, queue.late_at = None, max(since, now - COMMITTED)
    if not late:
        return 0, False
    look.put("id = ANY(%(late)s)", late=[pk for pk, _ in late])
    return _add(queue, look), len(late) == LOOK


def _start_look(queue: LabelQueue, *, ascending: bool = False) -> NewestDecisions:
    look = NewestDecisions(queue.workspace, filters_of(queue), most=LOOK, ascending=ascending)
    look.put(NOT_ERASED)
    return look


def _add(queue: LabelQueue, look: NewestDecisions) -> int:
    """Makes items of the look's decisions that the queue's filter lets pass; how many are new."""
    look.columns |= {"confidence", "agent_id", "action"}
    read = "NULL"
    if queue.strategy == QueueStrategy.DIVERSITY:
        look.columns.add("state")
        read = "d.state"
    rows = look.run(f"d.id, d.confidence, d.agent_id, d.action::text, {read}", "ORDER BY d.id")
    ids = [row[0] for row in rows]
    known = set(QueueItem.objects.filter(queue=queue, decision__in=ids).values_list("decision", flat=True))
    fresh = [
        Candidate(pk, confidence, (agent, action), text_of(json.loads(state)) if state else "")
        for pk, confidence, agent, action, state in rows
        if pk not in known
    ]
    labelled = _count_cells(queue) if fresh and queue.strategy == QueueStrategy.VALUE else Counter()
    ranks = rank_candidates(queue.strategy, fresh, labelled=labelled, salt=queue.id)
    items = QueueItem.objects.bulk_create(
        QueueItem(workspace_id=queue.workspace_id, queue=queue, decision_id=candidate.decision) for candidate in fresh
    )
    Reservation.objects.bulk_create(
        Reservation(
            workspace_id=queue.workspace_id,
            queue=queue,
            item=item,
            decision_id=item.decision_id,
            place=place,
            rank=rank,
        )
        for item, rank in zip(items, ranks, strict=True)
        for place in range(1, queue.overlap + 1)
    )
    return len(items)


def _count_cells(queue: LabelQueue) -> Counter[Cell]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT d.agent_id, d.action::text, count(*)
                 FROM (SELECT decision_id FROM decisions_label WHERE workspace_id = %s ORDER BY id DESC LIMIT %s) l
                 JOIN decisions_decision d ON d.id = l.decision_id GROUP BY 1, 2""",
            [queue.workspace_id, NEWEST_LABELS],
        )
        return Counter({(agent, action): count for agent, action, count in cursor.fetchall()})
