"""Writes the rows of exported decisions that chose or ranked, for `decisions.queries.exported`: those of a dataset,
and in each the right option where it is known."""

from __future__ import annotations

from typing import Any

import msgspec

from decisions.agents.choices import option_of
from decisions.queries.exported import Exported
from training.engine.rows.types import NO, YES
from training.models import DatasetKind
from training.rows.reward_scale import right_of, training_scale
from training.rows.selection import Rewarded
from training.rows.shapes_of.shapes import RANKING, shape_of

__all__ = ["write_exported"]

ANSWER = "answer"


def write_exported(row: Exported) -> list[dict[str, Any]] | None:
    """Logged rows (training.engine.rows.types) with ANSWER besides: what a person's verdict says is right. Of items of
    a ranking it is yes or no."""
    shape = shape_of(row.version)
    if shape.kind != DatasetKind.LOGGED:
        return None
    decision = _as_rewarded(row)
    rows = shape.write_rows(decision)
    if isinstance(rows, str):
        return []
    right = _find_right(row, decision.action)
    if right is None:
        return rows
    if shape is RANKING:
        first = right[0] if isinstance(right, list) and right else None
        if first not in (one["slate"]["item"] for one in rows):
            return rows
        return [one | {ANSWER: YES if one["slate"]["item"] == first else NO} for one in rows]
    answer = option_of(row.version, right)
    return [one | {ANSWER: answer} if answer in one["options"] else one for one in rows]


def _find_right(row: Exported, action: Any) -> Any:
    """The right action as the verdict has it, None where it names none."""
    if row.verdict == "confirmed":
        return action
    return msgspec.json.decode(row.corrected_action) if row.corrected_action is not None else None


def _as_rewarded(row: Exported) -> Rewarded:
    def loaded(text: str | None) -> Any:
        return msgspec.json.decode(text) if text is not None else None

    spec, raw = row.spec, row.reward
    return Rewarded(
        id=row.id,
        version=row.version,
        state=loaded(row.state),
        options=loaded(row.options),
        action=loaded(row.action),
        propensity=row.propensity,
        unit=row.unit,
        episode=None,
        alternatives=loaded(row.alternatives),
        temperature=row.temperature,
        epsilon=row.epsilon,
        completion=None,
        logprobs=None,
        reward=training_scale(spec, raw) if spec is not None and raw is not None else None,
        raw=raw,
        right=right_of(spec, row.signal) if spec is not None else None,
        reward_version=None,
    )
