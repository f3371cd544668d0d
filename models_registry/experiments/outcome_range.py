"""The outcomes that a model's units can have, [low, high] within [0, 1].

They follow from reward specs, which this floor does not know: the ledger registers the function that finds them
(`decisions.rewards.attainable`), and `experiments` calls it when an experiment starts.
"""

from __future__ import annotations

from collections.abc import Callable

from models_registry.models import RegisteredModel

RangeFinder = Callable[[RegisteredModel], tuple[float, float] | None]

_finders: list[RangeFinder] = []


def register_range(find: RangeFinder) -> RangeFinder:
    """As a decorator. The finder answers None for a model whose outcomes it does not know."""
    _finders.append(find)
    return find


def find_range(model: RegisteredModel) -> tuple[float, float]:
    """The whole of [0, 1] where nobody knows better."""
    for find in _finders:
        found = find(model)
        if found is not None and found[0] < found[1]:
            return found
    return 0.0, 1.0
