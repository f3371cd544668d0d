"""Finds decisions or episodes for a queue and makes their places. `decisions.labelling.reservations` calls it when none
is left.

The ledger may hold millions. So a queue looks at a fixed number at a time, by the index of ids: what is newer than
everything it has looked at, then what is older. A sequential queue begins with the oldest and only goes on. What was
imported or sent late has an older id than what was looked at before it: it is found by the server's time of its
arrival. What a look finds is ranked once and becomes items, with `overlap` places each.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from decisions.labelling.looks import LOOKS, Look
from decisions.models import LabelQueue, QueueItem, QueueStrategy, Reservation
from decisions.queries.by_name import FIRST
from workspaces.storage.ids import uuid7_bound

LOOK = 500
"""How many decisions or episodes one look walks."""
MOST_LOOKS = 8
"""After so many looks without a find the caller has to ask again."""
SETTLED = dt.timedelta(seconds=10)
"""A row may be committed after others with larger ids: what is younger than this is looked at again."""
COMMITTED = dt.timedelta(minutes=1)
"""Within this time of its arrival a late decision is committed: what arrived later is looked at again."""


@transaction.atomic
def fill_queue(queue: LabelQueue, *, only_new: bool = False) -> tuple[int, bool] | None:
    """How many items were added, and whether there is more of the ledger to look at. One look at what arrived late,
    then at most MOST_LOOKS looks, until one has found something. With `only_new`, one look at what is newer. None
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
    look = LOOKS[queue.subject](queue)
    walked = look.walk(most=LOOK, after=queue.newest) if newer else look.walk(most=LOOK, before=queue.oldest)
    if not walked:
        return 0, False
    settled = min(walked[-1], uuid7_bound(timezone.now() - SETTLED))
    added = _add(queue, look, walked)
    if newer or queue.newest is None:
        queue.newest = max(settled, queue.newest or FIRST)
    if not newer:
        queue.oldest = walked[0]
    return added, len(walked) == LOOK


def _look_at_late(queue: LabelQueue) -> tuple[int, bool]:
    """One look, in the order of arrival, at those whose ids the other looks have passed already: items added, and
    whether there were more than one look's."""
    if queue.newest is None:
        return 0, False
    since, now = queue.late_at or queue.created_at, timezone.now()
    look = LOOKS[queue.subject](queue)
    late = look.walk_late(
        most=LOOK,
        since=(since, queue.late_id or FIRST),
        between=(queue.oldest or FIRST, queue.newest),
        settled=SETTLED,
    )
    if len(late) == LOOK:
        queue.late_at, queue.late_id = late[-1]
    else:
        queue.late_at, queue.late_id = max(since, now - COMMITTED), None
    if not late:
        return 0, False
    return _add(queue, look, [pk for _, pk in late]), len(late) == LOOK


def _add(queue: LabelQueue, look: Look, walked: Sequence[uuid.UUID]) -> int:
    found = look.find(walked)
    ids = [candidate.subject for candidate in found]
    items = QueueItem.objects.filter(queue=queue, **{f"{queue.subject}__in": ids})
    known = set(items.values_list(queue.subject, flat=True))
    fresh = [candidate for candidate in found if candidate.subject not in known]
    ranks = look.rank(fresh)
    made = QueueItem.objects.bulk_create(
        QueueItem(workspace_id=queue.workspace_id, queue=queue, **{f"{queue.subject}_id": candidate.subject})
        for candidate in fresh
    )
    Reservation.objects.bulk_create(
        Reservation(
            workspace_id=queue.workspace_id,
            queue=queue,
            item=item,
            subject=item.subject_id,
            place=place,
            rank=rank,
        )
        for item, rank in zip(made, ranks, strict=True)
        for place in range(1, queue.overlap + 1)
    )
    return len(made)
