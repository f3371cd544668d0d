"""Rows of rankings, item by item: is this one right for the first place? (docs/adr/0023)

How an item is asked for is in `decisions.agents.items`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from decisions.agents.items import ask_items
from decisions.agents.prompts import PromptError
from decisions.models import AgentVersion
from training.engine.rows.slates import log_probability
from training.engine.rows.types import NO, ROUNDING, YES
from training.rows.selection import Rewarded
from training.rows.shapes_of.prompts import prompt_columns


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """A logged row (training.engine.rows.types) for each item shown, in the order of the ranking, the items not ranked
    last.

    The reward is that of the item put first: nothing is known of the others, and their reward is null. `slate` holds
    them together: the decision, the item, its place, counted from 1 (null: not ranked), the propensity of the whole
    ranking, and `first`, the probability that the policy puts this item first. The decision's alternatives tell that
    where they name every item that was shown; then Plackett and Luce's model tells the ranking's propensity, too.
    """
    shown, ranking = decision.options, decision.action
    if not shown:
        return "options"
    if not isinstance(ranking, list) or not ranking or any(item not in shown for item in ranking):
        return "action"
    order = [*ranking, *(item for item in shown if item not in ranking)]
    try:
        prompts = ask_items(decision.version, decision.state, order)
    except PromptError:
        return "prompt"
    if prompts is None:
        return "item"
    first = _read_first(decision.alternatives, shown)
    propensity = decision.propensity
    if propensity is None and first:
        told = log_probability({item: math.log(p) for item, p in first.items()}, ranking)
        propensity = math.exp(told) or None
    rows = []
    for number, item in enumerate(order, start=1):
        earned = decision.earned if number == 1 else {"reward": None}
        slate = {
            "id": str(decision.id),
            "item": item,
            "place": number if number <= len(ranking) else None,
            "propensity": propensity,
            **({"first": first[item]} if first else {}),
        }
        rows.append(
            {
                "id": str(decision.id) if number == 1 else f"{decision.id}/{number}",
                **prompt_columns(prompts[item]),
                "options": [YES, NO],
                "action": YES if number == 1 else NO,
                "propensity": None,
                **earned,
                "group": decision.unit or str(decision.id),
                "slate": slate,
            }
        )
    return rows


def _read_first(alternatives: Any, shown: Sequence[str]) -> dict[str, float]:
    """P(first place) of each item shown, empty where the decision does not tell it: alternatives that are items, each
    with a probability, all of which add up to 1."""
    told = {one["action"]: one.get("probability") for one in alternatives or () if isinstance(one["action"], str)}
    if set(told) != set(shown) or any(not p for p in told.values()):
        return {}
    return told if abs(math.fsum(told.values()) - 1.0) <= ROUNDING else {}


def write_answers(
    decision: str, version: AgentVersion, state: Mapping[str, Any], shown: Any, *, right: Any, done: Any
) -> list[dict[str, Any]] | str:
    """Labelled rows, one for each item shown: whoever puts an item first says of the others that they do not belong
    there. What a corrected order says of later places is not learnt. `slate` holds them together, with the places
    that the agent gave. Raises PromptError."""
    ranked = isinstance(right, list) and right and isinstance(done, list)
    if not shown or not ranked or any(item not in shown for item in (*right, *done)):
        return "options"
    prompts = ask_items(version, state, shown)
    if prompts is None:
        return "item"
    rows = []
    for number, item in enumerate(shown, start=1):
        answer = YES if item == right[0] else NO
        rows.append(
            {
                "id": decision if number == 1 else f"{decision}/{number}",
                **prompt_columns(prompts[item]),
                "options": [YES, NO],
                "answer": answer,
                "completion": answer,
                "slate": {"id": decision, "item": item, "place": done.index(item) + 1 if item in done else None},
            }
        )
    return rows
