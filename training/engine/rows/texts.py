"""Which of the rows of free text are right. No torch.

Checks before a run, the methods of `training.engine.text`, and whatever measures a model on texts read it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from training.engine.rows.types import Text

PEOPLE = ("label", "human")
"""Sources of rows whose text a person confirmed or wrote."""


def from_people(source: str | None) -> bool:
    return source in PEOPLE


def is_right(row: Text, right_from: float) -> bool | None:
    """Whether what a person said of the text, or else its reward, is at least `right_from`, in (0, 1]; None where
    nobody knows."""
    known = row.right if row.right is not None else row.reward
    if known is None:
        return True if from_people(row.source) else None
    return known >= right_from


def find_right_texts(rows: Sequence[Text], right_from: float) -> list[Text]:
    """The texts to imitate: those that are right, or all of them where nothing is known of any."""
    judged = [(row, is_right(row, right_from)) for row in rows]
    if all(right is None for _, right in judged):
        return list(rows)
    return [row for row, right in judged if right]


def find_text_answers(rows: Sequence[Text], right_from: float) -> tuple[list[Text], int]:
    """The texts that are known to be right, which others can be compared with, and how many are known to be wrong.
    Texts that nobody judged are no part of either."""
    judged = [(row, is_right(row, right_from)) for row in rows]
    return [row for row, right in judged if right], sum(right is False for _, right in judged)


def balance_classes(rows: Sequence[Text], right_from: float, seed: int) -> list[tuple[Text, bool]]:
    """As many right texts as wrong ones, in a random order that only `seed` decides. Of the larger class a random
    sample stays; texts of which nobody knows are left out. Empty where one class is."""
    rng = random.Random(f"{seed}/classes")  # noqa: S311 - a sample, not a secret
    classes = {known: [row for row in rows if is_right(row, right_from) is known] for known in (True, False)}
    count = min(map(len, classes.values()))
    chosen = [(row, known) for known, found in classes.items() for row in rng.sample(found, count)]
    rng.shuffle(chosen)
    return chosen
