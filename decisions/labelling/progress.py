"""How far a queue is, and which items wait for an adjudicator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Prefetch, QuerySet
from django.db.models.functions import Now

from decisions.models import ItemState, LabelQueue, QueueItem, Reservation


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of items by state, among those that the queue has found so far; `held` places and `labels` given."""

    waiting: int
    disputed: int
    resolved: int
    dropped: int
    gold: int
    held: int
    labels: int

    @property
    def done(self) -> int:
        return self.resolved + self.dropped

    @property
    def share(self) -> float:
        """Of what was found, how much is done, 0 to 1."""
        found = self.done + self.waiting + self.disputed
        return self.done / found if found else 0.0


def count_progress(queue: LabelQueue) -> Progress:
    states = dict(QueueItem.objects.filter(queue=queue).values_list("state").annotate(Count("id")))
    places = Reservation.objects.filter(queue=queue).exclude(holder="")
    return Progress(
        **{str(state): states.get(state, 0) for state in ItemState.values},
        held=places.filter(label=None, skipped_at=None, expires_at__gt=Now()).count(),
        labels=places.filter(label__isnull=False).count(),
    )


def find_disputes(queue: LabelQueue) -> QuerySet[QueueItem]:
    """With the labels of each, in the order of places."""
    places: Any = Reservation.objects.filter(label__isnull=False, place__isnull=False)
    labelled = places.select_related("label__reviewer").order_by("place")
    return QueueItem.objects.filter(queue=queue, state=ItemState.DISPUTED).prefetch_related(
        Prefetch("reservations", labelled, to_attr="labelled")
    )
