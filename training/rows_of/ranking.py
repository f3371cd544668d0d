"""Rows of rankings, item by item: is this one right for the first place? (docs/adr/0023)

An item's prompt is that of the decision with every other item taken out: of `{{ options }}`, and of lists in the state
whose members are the options, by themselves or by their `id`. So an item is scored by itself, whatever else is shown
and in whatever order, and a list of any length fits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from decisions.agents.prompts import PromptError, render_prompt
from decisions.models import AgentVersion
from training.selection import Rewarded

YES, NO = "yes", "no"


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """A logged row (training.engine.rows) for each item shown, in the order of the ranking, the items not ranked last.

    The reward is that of the item put first: nothing is known of the others, and their reward is null. `slate` holds
    them together: the decision, the item, its place, counted from 1 (null: not ranked), and the propensity of the whole
    ranking.
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
    rows = []
    for number, item in enumerate(order, start=1):
        first = number == 1
        earned = decision.earned if first else {"reward": None, **_group(decision)}
        slate = {
            "id": str(decision.id),
            "item": item,
            "place": number if number <= len(ranking) else None,
            "propensity": decision.propensity,
        }
        rows.append(
            {
                "id": str(decision.id) if first else f"{decision.id}/{number}",
                "prompt": prompts[item],
                "options": [YES, NO],
                "action": YES if first else NO,
                "propensity": None,
                **earned,
                "slate": slate,
            }
        )
    return rows


def write_answers(
    decision: str, version: AgentVersion, state: Mapping[str, Any], shown: Any, *, right: Any, done: Any
) -> list[dict[str, Any]] | str:
    """Labelled rows: of the item that is right for the first place, and of the one that the agent put there instead.
    What a corrected order says of later places is not learnt. Raises PromptError."""
    ranked = isinstance(right, list) and right and isinstance(done, list)
    if not shown or not ranked or any(item not in shown for item in (*right, *done)):
        return "options"
    prompts = ask_items(version, state, shown)
    if prompts is None:
        return "item"
    rows = [_answer(decision, prompts[right[0]], YES)]
    if done and done[0] != right[0]:
        rows.append(_answer(f"{decision}/2", prompts[done[0]], NO))
    return rows


def _answer(row: str, prompt: str, answer: str) -> dict[str, Any]:
    return {"id": row, "prompt": prompt, "options": [YES, NO], "answer": answer, "completion": answer}


def ask_items(
    version: AgentVersion, state: Mapping[str, Any], asked: Sequence[str], *, offered: Sequence[str] = ()
) -> dict[str, str] | None:
    """The prompt of each item; None where the prompts do not tell them apart. `offered`: the items among which those
    that are asked for stand, by default these alone. Raises PromptError."""
    shown = {*asked, *offered}
    prompts = {item: render_prompt(version.prompt_template, keep_item(state, item, shown), [item]) for item in asked}
    return prompts if len(set(prompts.values())) == len(prompts) else None


def keep_item(state: Any, item: str, shown: Collection[str]) -> Any:
    """The state, in which lists of the items that were shown hold only this one."""
    if isinstance(state, dict):
        return {name: keep_item(inner, item, shown) for name, inner in state.items()}
    if not isinstance(state, list):
        return state
    names = [_name(member) for member in state]
    if names and all(name in shown for name in names):
        return [member for member, name in zip(state, names, strict=True) if name == item]
    return [keep_item(member, item, shown) for member in state]


def _name(member: Any) -> str | None:
    found = member.get("id") if isinstance(member, dict) else member
    return found if isinstance(found, str) else None


def _group(decision: Rewarded) -> dict[str, Any]:
    return {"group": decision.unit} if decision.unit else {}
