"""How many of an update's rows a trainer of TRL calculates at once: fewer each time that memory ran out.

Trainers cannot make a part smaller while they work, so a run begins again from its newest checkpoint
(`training.engine.run`). An update holds the same rows all the while. Sizes divide what one device calculates of an
update: all at once at first, then half, or the next smaller size that suits.
"""

from __future__ import annotations

from dataclasses import dataclass

from training.engine.attempt.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Parts:
    """`at_once` rows at a time, `accumulated` times, make this process's share of an update. `fewer`: what fits where
    these do not, None where nothing does."""

    at_once: int
    accumulated: int
    fewer: int | None


def parts_of(attempt: Attempt, whole: int, *, least: int = 1, group: int = 1) -> Parts:
    """`whole` rows and more at once as the spec's batches are, or what is left of that after `attempt.halved` halvings.

    Each size divides `whole`, is at least `least`, and holds whole groups of `group` rows, or an equal part of one.
    """
    sizes = find_sizes(whole, least, group)
    at_once = sizes[min(attempt.halved, len(sizes) - 1)]
    smaller = [size for size in sizes if size < at_once]
    return Parts(at_once, attempt.spec.optimiser.accumulate * whole // at_once, smaller[0] if smaller else None)


def find_sizes(whole: int, least: int = 1, group: int = 1) -> list[int]:
    """From `whole` down, each at most half of the one before."""
    suitable = [
        size
        for size in range(whole // 2, least - 1, -1)
        if whole % size == 0 and (size % group == 0 or group % size == 0)
    ]
    sizes = [whole]
    for size in suitable:
        if size <= sizes[-1] // 2:
            sizes.append(size)
    return sizes
