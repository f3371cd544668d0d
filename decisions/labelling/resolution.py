"""Labels of a queue, and what resolves its items.

With an overlap of 1 a label counts at once. With more, labels stay pending until every place of the item has one; where
all say the same, the last one resolves the item and writes the feedback that counts. Otherwise an adjudicator resolves
it by a label of their own. So rewards read one verdict of an item, from its resolution. Labels on gold items stay
pending for ever: they are compared with the known answer.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from decisions.agents.chat_actions import canonical_action
from decisions.labelling.corrections import is_same_correction
from decisions.labelling.labels import check_label, count_label, create_label, remove_label
from decisions.labelling.queues import check_reviewer, holder_of, may_adjudicate
from decisions.labelling.reservations import ASKED, find_item, find_place, renew_place, undo_skip
from decisions.labelling.subjects import get_subject
from decisions.models import ItemState, Label, LabelQueue, QueueItem, Reservation
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, NotAllowed


def answer_of(verdict: str, corrected_action: Any) -> str:
    """What a label says, as text: two labels agree when this is equal."""
    return verdict if corrected_action is None else f"{verdict} {canonical_action(corrected_action)}"


@transaction.atomic
def submit_label(
    *,
    by: Actor,
    queue: LabelQueue,
    subject: uuid.UUID,
    verdict: str,
    corrected_action: Any = None,
    note: str = "",
) -> tuple[QueueItem, Label]:
    """The label of a place that the actor holds, and what it made of the item. Said again, it is the same label. Raises
    InvalidInput, Erased, NotFound, NotAllowed, Conflict."""
    check_reviewer(by, queue)
    item = find_item(by, queue, subject)
    place = find_place(by, item)
    if (last := place.label) is not None:
        if (last.verdict, last.note) == (verdict, note) and is_same_correction(last.corrected_action, corrected_action):
            return item, last
        raise Conflict(f"You have labelled this {queue.subject} already. Undo your label first.")
    judged = get_subject(item)
    check_label(judged, verdict=verdict, corrected_action=corrected_action)
    if item.state not in ASKED:
        raise Conflict(f"This {queue.subject} is no longer asked.")
    place.label = create_label(
        by=by, subject=judged, verdict=verdict, corrected_action=corrected_action, note=note, pending=True
    )
    place.draft = None
    place.save(update_fields=["label", "draft"])
    if item.state == ItemState.WAITING:
        _judge(by, item, place.label)
    return item, place.label


def _judge(by: Actor, item: QueueItem, newest: Label) -> None:
    """Resolves the item when its last place has got a label and all agree."""
    places = list(Reservation.objects.filter(item=item, place__isnull=False).select_related("label"))
    labels = [place.label for place in places if place.label is not None]
    if len(labels) < len(places):
        return
    if len({answer_of(label.verdict, label.corrected_action) for label in labels}) == 1:
        _resolve(by, item, newest)
    else:
        item.state = ItemState.DISPUTED
        item.save(update_fields=["state"])


def _resolve(by: Actor, item: QueueItem, label: Label) -> None:
    count_label(by=by, label=label)
    Label.objects.filter(reservation__item=item).update(pending=False)
    Label.objects.filter(id=label.id).update(pending=False)
    label.pending = False
    item.state, item.resolution = ItemState.RESOLVED, label
    item.save(update_fields=["state", "resolution"])


@transaction.atomic
def adjudicate_item(
    *,
    by: Actor,
    queue: LabelQueue,
    subject: uuid.UUID,
    verdict: str,
    corrected_action: Any = None,
    note: str = "",
) -> tuple[QueueItem, Label]:
    """Resolves a dispute by a label of the adjudicator's, which need not be one of the reviewers' answers. Raises
    InvalidInput, Erased, NotFound, NotAllowed, Conflict."""
    item = find_item(by, queue, subject)
    if item.state != ItemState.DISPUTED:
        raise Conflict(f"This {queue.subject} is not disputed.")
    if not may_adjudicate(by, queue):
        raise NotAllowed("Only an admin or an adjudicator of this labelling queue may resolve disputes.")
    judged = get_subject(item)
    check_label(judged, verdict=verdict, corrected_action=corrected_action)
    label = create_label(by=by, subject=judged, verdict=verdict, corrected_action=corrected_action, note=note)
    _resolve(by, item, label)
    return item, label


@transaction.atomic
def undo_in_queue(*, by: Actor, queue: LabelQueue, subject: uuid.UUID) -> QueueItem:
    """Takes back the actor's skip, label or resolution. Their own place is held by them again. A label cannot be taken
    back once somebody else has resolved the item. Raises NotFound, NotAllowed, Conflict."""
    item = find_item(by, queue, subject)
    holder, resolution = holder_of(by), item.resolution
    if undo_skip(by=by, item=item):
        return item
    places = Reservation.objects.select_for_update(of=("self",)).select_related("label", "queue")
    place = places.filter(item=item, holder=holder, label__isnull=False).first()
    mine = place.label if place is not None else None
    if resolution is not None and _is_by(by, resolution):
        remove = resolution
    elif resolution is None and mine is not None:
        remove = mine
    else:
        raise Conflict(
            f"You have nothing to undo here: you did not label this {queue.subject}, or somebody resolved it."
        )
    if item.state != ItemState.GOLD:
        item.state = ItemState.WAITING if mine == remove else ItemState.DISPUTED
        item.resolution = None
        item.save(update_fields=["state", "resolution"])
    remove_label(by=by, label=remove)
    Label.objects.filter(reservation__item=item).update(pending=True)
    if place is not None and mine == remove:
        renew_place(place)
    return item


def _is_by(by: Actor, label: Label) -> bool:
    return label.reviewer_id == by.user.pk if by.user else not label.reviewer_id and label.program == by.name


def shown_state(item: QueueItem) -> str:
    """The item's state for a reviewer, to whom a gold item looks like any other."""
    if item.state != ItemState.GOLD:
        return item.state
    return ItemState.RESOLVED if item.queue.overlap == 1 else ItemState.WAITING
