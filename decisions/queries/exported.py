"""A decision on its way out of the ledger, and what it is to a model that chooses: rows to learn and to measure from.

Datasets and their rows are a floor above; that floor registers its writer here.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from decisions.models import Agent, AgentVersion, RewardSpec

__all__ = ["Exported", "row_writer", "write_choice_rows"]


@dataclass(frozen=True, slots=True)
class Exported:
    """One decision on its way out. JSON fields are PostgreSQL's text of them, not parsed. `spec`: the agent's current
    reward spec, by which it has its `reward`; `signal` is the value of the component that says right and wrong.
    `correction` is as it was sent, a text perhaps; `corrected_action` is the right action."""

    id: uuid.UUID
    agent: Agent
    version: AgentVersion
    spec: RewardSpec | None
    item_ref: str | None
    project_ref: str | None
    state: str
    options: str | None
    action: str
    reasoning: str | None
    confidence: float | None
    observed_at: dt.datetime
    reward: float | None
    rewarded_at: dt.datetime | None
    verdict: str | None
    correction: str | None
    corrected_action: str | None
    metrics: str | None
    unit: str | None
    propensity: float | None
    alternatives: str | None
    temperature: float | None
    epsilon: float | None
    signal: float | None
    finish_reason: str | None = None


Writer = Callable[[Exported], list[dict[str, Any]] | None]
_writers: list[Writer] = []


def row_writer(writer: Writer) -> Writer:
    """Decorator: this writes the rows of a decision that chose or ranked, none of one that cannot be learnt from; None
    of one whose action was written. There is one."""
    if _writers:
        raise ValueError("exported decisions have a writer of rows already")
    _writers.append(writer)
    return writer


def write_choice_rows(row: Exported) -> dict[str, Any]:
    """The field `rows` of an exported line; nothing of an action that was written."""
    rows = _writers[0](row) if _writers else None
    return {} if rows is None else {"rows": rows}
