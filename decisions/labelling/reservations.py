"""Places that reviewers hold: the next one, drafts, giving it back, and skipping.

Each place of an item is a row, so taking one is one UPDATE, and what another reviewer takes at the same moment is
skipped (SKIP LOCKED). A place expires by the database's clock. Until somebody else has taken it, its holder may still
use it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from decisions.labelling.filling import fill_queue
from decisions.labelling.queues import check_reviewer, holder_of
from decisions.labelling.subjects import get_subject, lock_subject
from decisions.labelling.suggesting import learn_when_due
from decisions.models import ItemState, LabelQueue, QueueItem, Reservation, SkipPolicy
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, NotFound

MOST_HELD = 10
"""How many places of a queue one reviewer may hold at a time."""
LOOK_FOR_NEW_SECONDS = 60
ASKED = (ItemState.WAITING, ItemState.GOLD)

_RENEW = """
UPDATE decisions_reservation r SET expires_at = statement_timestamp() + make_interval(secs => %(seconds)s)
 WHERE r.queue_id = %(queue)s AND r.holder = %(holder)s AND r.holder <> ''
   AND r.label_id IS NULL AND r.skipped_at IS NULL
   AND (SELECT i.state FROM decisions_queueitem i WHERE i.id = r.item_id) IN ('waiting', 'gold')
RETURNING r.*
"""
# One walk along the index of open places. What is asked of other tables stands in subqueries, which the planner cannot
# turn into joins of everything. The conditions on the place are checked again once its row is locked: another reviewer
# may have taken it meanwhile.
_TAKE = """
UPDATE decisions_reservation r
   SET holder = %(holder)s, expires_at = statement_timestamp() + make_interval(secs => %(seconds)s), draft = NULL
 WHERE r.id = (
   SELECT p.id FROM decisions_reservation p
    WHERE p.queue_id = %(queue)s AND p.place IS NOT NULL AND p.label_id IS NULL
      AND (p.holder = '' OR p.expires_at <= statement_timestamp())
      AND (SELECT i.state FROM decisions_queueitem i WHERE i.id = p.item_id) = 'waiting'
      AND (SELECT own.id FROM decisions_reservation own
            WHERE own.queue_id = p.queue_id AND own.subject = p.subject
              AND own.holder = %(holder)s AND own.holder <> '') IS NULL
    ORDER BY p.rank, p.subject, p.place
    LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING r.*
"""
_TAKE_GOLD = """
INSERT INTO decisions_reservation (id, workspace_id, queue_id, item_id, subject, holder, expires_at)
SELECT %(id)s, i.workspace_id, i.queue_id, i.id, coalesce(i.decision_id, i.episode_id), %(holder)s,
       statement_timestamp() + make_interval(secs => %(seconds)s)
  FROM decisions_queueitem i
 WHERE i.queue_id = %(queue)s AND i.state = 'gold'
   AND NOT EXISTS (SELECT 1 FROM decisions_reservation own
                    WHERE own.queue_id = %(queue)s AND own.subject = coalesce(i.decision_id, i.episode_id)
                      AND own.holder = %(holder)s)
 ORDER BY coalesce(i.decision_id, i.episode_id) LIMIT 1
RETURNING *
"""


@dataclass(frozen=True, slots=True)
class Held:
    """The places that a reviewer holds, first to label first. `searching`: none was found yet, and the ledger has more
    to look at, so asking again may find one."""

    reservations: tuple[Reservation, ...]
    searching: bool = False


@transaction.atomic
def reserve_next(*, by: Actor, queue: LabelQueue, count: int = 1) -> Held:
    """The places that the reviewer holds, renewed, and as many new ones as are lacking to `count` (1 to MOST_HELD).
    Raises NotAllowed, Conflict."""
    check_reviewer(by, queue)
    holder, searching = _serialise(by, queue), False
    known = {"holder": holder, "queue": queue.id, "seconds": queue.hold_seconds}
    held = _run(_RENEW, known)
    if len(held) < count and _looked_long_ago(queue):
        fill_queue(queue, only_new=True)
        learn_when_due(queue)
    while len(held) < min(count, MOST_HELD):
        taken = _run(_TAKE_GOLD, known | {"id": uuid.uuid4()}) if _is_gold_turn(by, queue) else []
        taken = taken or _run(_TAKE, known)
        held += taken
        if taken or (filled := fill_queue(queue)) is None:
            continue
        added, searching = filled
        if not added:
            break
    held.sort(key=lambda place: (place.rank, place.subject))
    return Held(tuple(held[:MOST_HELD]), searching and not held)


def _serialise(by: Actor, queue: LabelQueue) -> str:
    """One reviewer's two requests for places follow each other; who holds them, by name. Until the transaction ends,
    places are read in the order of their index (as by `workspaces.storage.index_order`, in the same statement as the
    lock)."""
    holder = holder_of(by)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('enable_sort', 'off', true), pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"label:{queue.id}:{holder}"],
        )
    return holder


def _run(statement: str, values: Mapping[str, Any]) -> list[Reservation]:
    """The places that the statement changed or made."""
    return list(Reservation.objects.raw(statement, values))


def _looked_long_ago(queue: LabelQueue) -> bool:
    if queue.filled_at is None:
        return False  # the first place that is asked for makes the queue look anyway
    return (timezone.now() - queue.filled_at).total_seconds() > LOOK_FOR_NEW_SECONDS


def _is_gold_turn(by: Actor, queue: LabelQueue) -> bool:
    """In a share of a reviewer's turns, which look like any other."""
    if not queue.gold_share:
        return False
    turn = Reservation.objects.filter(queue=queue, holder=holder_of(by)).count()
    digest = hashlib.blake2b(f"{queue.slug}:{by.name}:{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64 < queue.gold_share


def find_item(by: Actor, queue: LabelQueue, subject: uuid.UUID) -> QueueItem:
    """Of the decision or episode with this id. Locked until the transaction ends, so that its labels are judged one
    after the other. Raises NotFound."""
    # The subject first, as an erasure locks them.
    lock_subject(queue.subject, subject, by.workspace)
    items = QueueItem.objects.select_for_update(of=("self",), no_key=True).select_related("resolution", "queue")
    item = items.filter(queue=queue, workspace=by.workspace, **{queue.subject: subject}).first()
    if item is None:
        raise NotFound(f"This {queue.subject} is not in the labelling queue.")
    return item


def find_place(by: Actor, item: QueueItem) -> Reservation:
    """The place that the actor holds, locked, with its label if it has one. Raises Conflict."""
    places = Reservation.objects.select_for_update(of=("self",)).select_related("label", "queue")
    place = places.filter(item=item, holder=holder_of(by), skipped_at=None).first()
    if place is None:
        raise Conflict(
            f"You do not hold this {item.queue.subject}: your reservation has expired, or you never had one."
        )
    return place


def _open_place(by: Actor, queue: LabelQueue, subject: uuid.UUID) -> tuple[QueueItem, Reservation]:
    check_reviewer(by, queue)
    item = find_item(by, queue, subject)
    place = find_place(by, item)
    if place.label is not None:
        raise Conflict(f"You have labelled this {queue.subject} already. Undo your label first.")
    return item, place


@transaction.atomic
def save_draft(*, by: Actor, queue: LabelQueue, subject: uuid.UUID, draft: Mapping[str, Any]) -> Reservation:
    """Keeps an unfinished label with the place, and renews it. Raises NotFound, Conflict, NotAllowed."""
    item, place = _open_place(by, queue, subject)
    if item.state not in ASKED:
        raise Conflict(f"This {queue.subject} is no longer asked.")
    place.draft = dict(draft)
    place.save(update_fields=["draft"])
    renew_place(place)
    return place


def renew_place(place: Reservation) -> None:
    """It is held as long as a new one, from now on by the database's clock."""
    expires_at = Now() + dt.timedelta(seconds=place.queue.hold_seconds)
    Reservation.objects.filter(id=place.id).update(expires_at=expires_at)
    place.refresh_from_db(fields=["expires_at"])


@transaction.atomic
def discard_place(*, by: Actor, queue: LabelQueue, subject: uuid.UUID) -> QueueItem:
    """Gives the place back with its draft; anybody may get it next. Raises NotFound, Conflict, NotAllowed."""
    item, place = _open_place(by, queue, subject)
    _free(place)
    return item


def _free(place: Reservation) -> None:
    if place.place is None:
        place.delete()
    else:
        place.holder, place.expires_at, place.draft = "", None, None
        place.save(update_fields=["holder", "expires_at", "draft"])


@transaction.atomic
def skip_item(*, by: Actor, queue: LabelQueue, subject: uuid.UUID) -> QueueItem:
    """Passes it over: no verdict. By the queue's policy others are asked, or nobody is. A gold item is asked
    of others in any case. Raises NotFound, Conflict, NotAllowed."""
    item, place = _open_place(by, queue, subject)
    _free(place)
    Reservation.objects.create(
        workspace=by.workspace,
        queue=queue,
        item=item,
        subject=subject,
        holder=holder_of(by),
        skipped_at=timezone.now(),
    )
    if queue.skip_policy == SkipPolicy.DROP and item.state == ItemState.WAITING:
        item.state = ItemState.DROPPED
        item.save(update_fields=["state"])
    return item


def undo_skip(*, by: Actor, item: QueueItem) -> bool:
    """Whether the actor had skipped the item. It is asked again, of the actor if a place is free. Call within a
    transaction that has locked the item."""
    deleted, _ = Reservation.objects.filter(item=item, holder=holder_of(by), skipped_at__isnull=False).delete()
    if not deleted:
        return False
    erased = get_subject(item).is_erased
    if item.state == ItemState.DROPPED and not erased and not _skipped_by_others(item):
        item.state = ItemState.WAITING
        item.save(update_fields=["state"])
    if item.state == ItemState.WAITING:
        known = {"holder": holder_of(by), "item": item.id, "seconds": item.queue.hold_seconds}
        _run(_TAKE_AGAIN, known)
    return True


def _skipped_by_others(item: QueueItem) -> bool:
    return Reservation.objects.filter(item=item, skipped_at__isnull=False).exists()


_TAKE_AGAIN = """
UPDATE decisions_reservation r
   SET holder = %(holder)s, expires_at = statement_timestamp() + make_interval(secs => %(seconds)s), draft = NULL
 WHERE r.id = (
   SELECT p.id FROM decisions_reservation p
    WHERE p.item_id = %(item)s AND p.place IS NOT NULL AND p.label_id IS NULL
      AND (p.holder = '' OR p.expires_at <= statement_timestamp())
    ORDER BY p.place LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING r.id
"""
