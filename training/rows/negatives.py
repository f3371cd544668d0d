"""Synthetic negatives: wrong actions that nobody took, beside right ones. PURE.

A dataset holds them only where it is asked for them, and marks them: `synthetic` in the row, their number in statistics
and manifest. They stand for the wrong rows that `kto` needs where people only confirmed, and for pairs of confirmed
decisions. Of decisions a negative is another option of the same row, of texts what answered another prompt of the same
part, of pairs an option that was neither right nor chosen. It is wrong only as far as one answer alone is right.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from training.engine.rows.types import normalise_prompt
from training.rows.trl_formats import is_right

KEPT = 64
"""So many right texts of earlier rows are drawn from."""
MARK = "synthetic"
ASKED = ("prompt", "system", "messages", "tools")
"""The columns that say what was asked."""


class Negatives:
    """Of the rows of one part of a dataset, in their order: what is held out never stands in what is learnt from."""

    def __init__(self) -> None:
        self._texts: deque[tuple[str, dict[str, Any]]] = deque(maxlen=KEPT)

    def make(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """The negative of a logged or text row; None of one that was not right, of an item of a ranking, and where
        there is nothing else to say."""
        if row.get("slate") is not None or not is_right(dict(row)):
            return None
        wrong = self._find_wrong(row)
        if wrong is None:
            return None
        asked = {name: row[name] for name in ASKED if name in row}
        told = {"id": f"{row['id']}/negative", **asked, **wrong, "reward": 0.0}
        if row.get("right") is not None:  # else nothing here declares what is right, and the rewards say it
            told["right"] = 0.0
        return told | {"group": row.get("group") or row["id"], MARK: True}

    def _find_wrong(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        if "action" in row:
            other = draw_other(row["options"], [row["action"]], seed=str(row["id"]))
            return None if other is None else {"options": row["options"], "action": other, "propensity": None}
        prompt = normalise_prompt(row["prompt"], None, row.get("messages"), row.get("tools"))
        own = {name: row[name] for name in ("completion", "reply") if name in row}
        others = {
            answer["completion"]: answer
            for asked, answer in self._texts
            if asked != prompt and answer["completion"] != own["completion"]
        }
        self._texts.append((prompt, own))
        other = draw_other(list(others), [], seed=str(row["id"]))
        return None if other is None else others[other]


def draw_other(options: Sequence[str], besides: Sequence[str], *, seed: str) -> str | None:
    """One of the options that are not `besides`, always the same one for a seed; None without any."""
    others = [option for option in options if option not in besides]
    return random.Random(f"negative/{seed}").choice(others) if others else None  # noqa: S311 - a choice, not a secret
