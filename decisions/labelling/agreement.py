"""How far a queue's reviewers agree with each other and with gold items, and how fast they label."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from decisions.labelling.alpha import nominal_alpha
from decisions.labelling.resolution import answer_of
from decisions.models import LabelQueue, Reservation

PAUSE_SECONDS = 600.0
"""A longer time between two labels of one reviewer is a pause, and does not count as pace."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`items` that both labelled; `agreed`, the share of them with one answer; `alpha` None where undefined."""

    reviewers: tuple[str, str]
    items: int
    agreed: float
    alpha: float | None


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One reviewer's work in a queue. `gold`: gold items answered, `accuracy` the share of right answers among them,
    None without any. `pace`: median seconds from one label to the next, pauses left out; None below two labels."""

    reviewer: str
    labels: int
    gold: int
    accuracy: float | None
    pace: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """`items` with two or more labels; `alpha` over all reviewers, None where undefined. `verdict_alpha` leaves the
    corrections out: two reviewers rarely write the same text, and may agree that the action was wrong."""

    items: int
    alpha: float | None
    verdict_alpha: float | None
    pairs: tuple[Pair, ...]
    reviewers: tuple[Reviewed, ...]


def measure_agreement(queue: LabelQueue) -> Agreement:
    """From reviewers' own labels, never from resolutions. Reads every label of the queue; two are one answer when
    verdict and corrected action are the same, the latter as canonical JSON."""
    places = list(
        Reservation.objects.filter(queue=queue, label__isnull=False)
        .select_related("label__reviewer", "item")
        .order_by("label__created_at", "id")
    )
    answers: dict[object, dict[str, str]] = defaultdict(dict)
    verdicts: dict[object, list[str]] = defaultdict(list)
    for place in places:
        if place.place is not None and place.label is not None:
            label = place.label
            answers[place.subject][place.holder] = answer_of(label.verdict, label.corrected_action)
            verdicts[place.subject].append(label.verdict)
    names = {place.holder: place.label.labelled_by for place in places if place.label is not None}
    units = [list(given.values()) for given in answers.values()]
    holders = sorted(names, key=lambda holder: (names[holder], holder))
    pairs = [pair for one, other in combinations(holders, 2) if (pair := _pair(one, other, names, answers)) is not None]
    return Agreement(
        items=sum(len(unit) > 1 for unit in units),
        alpha=nominal_alpha(units),
        verdict_alpha=nominal_alpha(verdicts.values()),
        pairs=tuple(pairs),
        reviewers=tuple(
            _reviewed(names[holder], [place for place in places if place.holder == holder]) for holder in holders
        ),
    )


def _pair(one: str, other: str, names: Mapping[str, str], answers: Mapping[object, Mapping[str, str]]) -> Pair | None:
    both = [(given[one], given[other]) for given in answers.values() if one in given and other in given]
    if not both:
        return None
    agreed = sum(first == second for first, second in both) / len(both)
    return Pair((names[one], names[other]), len(both), agreed, nominal_alpha(both))


def _reviewed(name: str, places: Sequence[Reservation]) -> Reviewed:
    labels = [place.label for place in places if place.label is not None]
    right = [
        answer_of(place.label.verdict, place.label.corrected_action)
        == answer_of(place.item.gold["verdict"], place.item.gold["corrected_action"])
        for place in places
        if place.label is not None and place.item.gold is not None
    ]
    moments = [label.created_at for label in labels]
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    worked = [wait for wait in waits if wait <= PAUSE_SECONDS]
    return Reviewed(
        reviewer=name,
        labels=len(labels),
        gold=len(right),
        accuracy=sum(right) / len(right) if right else None,
        pace=statistics.median(worked) if worked else None,
    )
