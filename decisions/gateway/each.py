"""Decides on each of several items: one that cannot be decided on leaves the others, as in the lists of the ledger."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from decisions.errors import Erased, IdConflict, IdNotUsable
from decisions.gateway.answers import Answer
from decisions.gateway.decide import decide
from decisions.ingest.decoding import ItemError
from decisions.ingest.schemas import DecideItem
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput

PLACE = re.compile(r"items\[(\d+)\]\.?")


def decide_each(
    *, by: Actor, agent: str, items: Sequence[tuple[int, DecideItem]]
) -> tuple[dict[int, Answer], list[ItemError]]:
    """Answers by the numbers of the items, and why others have none: their fields, or an id that is taken or erased.
    Before the model is asked these are known, and asked anew without them. Raises as `decide` for what concerns all of
    them."""
    left, errors = dict(items), list[ItemError]()
    while left:
        numbers = list(left)
        try:
            answers = decide(by=by, agent=agent, items=list(left.values()))
        except (InvalidInput, IdConflict, Erased) as error:
            if not (faults := _faults_by_number(error, left)):
                raise
            for number, found in faults.items():
                errors.append(ItemError(number, error.code, found))
                del left[number]
        else:
            return dict(zip(numbers, answers, strict=True)), errors
    return {}, errors


def _faults_by_number(
    error: InvalidInput | IdConflict | Erased, left: dict[int, DecideItem]
) -> dict[int, tuple[FieldFault, ...]]:
    """Returns the faults of each item, by its number; empty where `decide` refuses for another reason than an item."""
    if isinstance(error, IdConflict | IdNotUsable | Erased):
        return {number: error.faults for number, item in left.items() if item.id in error.ids}
    numbers = list(left)
    faults: dict[int, tuple[FieldFault, ...]] = {}
    for fault in error.faults:
        place = PLACE.match(fault.field)
        if place is None and len(numbers) > 1:
            return {}
        number = numbers[int(place[1]) if place else 0]
        field = fault.field[place.end() :] if place else fault.field
        faults[number] = (*faults.get(number, ()), replace(fault, field=field))
    return faults
