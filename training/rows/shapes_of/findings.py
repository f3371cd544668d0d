"""Rows of findings, pair by pair: how does the new item relate to this one? (docs/adr/0023-rows-by-shape.md)

An action that lists findings, each with a kind and the ids of items that the state offers, as LIBRARIAN's does, says of
pairs of items how they relate. A pair's prompt is the decision's with every other item taken out of the lists that were
offered, so a collection of any size fits, and the probabilities of the options are the pair's scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.actions import OFFERED, values_at
from decisions.agents.items import ask_items
from decisions.agents.prompts import PromptError
from decisions.models import AgentVersion
from models_registry.backends.prompts import Prompt
from training.rows.selection import Rewarded
from training.rows.shapes_of.prompts import prompt_columns

NONE = "NONE"
"""The option of a pair between which nothing was found."""
MOST_WITHOUT = 20
"""A decision that found nothing says so of the first so many items that were offered."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Where an action lists them: the field of the list, and of a finding its kind and its ids, which the state offers
    at `source`. `kinds`: what a finding may be."""

    listed: str
    kind: str
    ids: str
    source: str
    kinds: tuple[str, ...]


def find_findings(schema: Any) -> Findings | None:
    """Of an action's schema; None of one that lists none."""
    for listed, field in _properties(schema).items():
        inner = _properties(field.get("items")) if isinstance(field, Mapping) else {}
        kinds = [name for name, one in inner.items() if isinstance(one.get("enum"), list)]
        ids = [name for name, one in inner.items() if OFFERED in (one.get("items") or {})]
        if len(kinds) == len(ids) == 1:
            told = tuple(map(str, inner[kinds[0]]["enum"]))
            return Findings(listed, kinds[0], ids[0], inner[ids[0]]["items"][OFFERED], told)
    return None


def _properties(schema: Any) -> Mapping[str, Any]:
    return (schema.get("properties") or {}) if isinstance(schema, Mapping) else {}


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """A logged row (training.engine.rows.types) for each pair that the findings name, or for those between which
    nothing was found, where there are none. Each has the decision's reward: a verdict is on all that it found. The
    propensity is that of the whole list, and no pair has one."""
    version = decision.version
    place = find_findings(version.action_schema)
    found = decision.action.get(place.listed) if place is not None and isinstance(decision.action, Mapping) else None
    if place is None or not isinstance(found, list):
        return "action"
    kind_of: dict[str, str] = {}
    for finding in found:
        for item in finding.get(place.ids) or ():
            kind_of.setdefault(item, finding[place.kind])
    offered = list(dict.fromkeys(values_at(decision.state, place.source)))
    if not found:
        kind_of = dict.fromkeys(offered[:MOST_WITHOUT], NONE)
    if not kind_of or not kind_of.keys() <= set(offered):
        return "options"
    prompts = _ask_pairs(version, decision.state, offered, list(kind_of))
    if isinstance(prompts, str):
        return prompts
    about = {"propensity": None, **decision.earned}
    about.setdefault("group", str(decision.id))
    return [
        {
            "id": str(decision.id) if number == 1 else f"{decision.id}/{number}",
            **prompt_columns(prompts[item]),
            "options": [*place.kinds, NONE],
            "action": kind,
            **about,
        }
        for number, (item, kind) in enumerate(kind_of.items(), start=1)
    ]


def _ask_pairs(
    version: AgentVersion, state: Mapping[str, Any], offered: list[str], named: list[str]
) -> dict[str, Prompt] | str:
    """The prompt of each item that is named, or why there is none."""
    try:
        prompts = ask_items(version, state, named, offered=offered)
    except PromptError:
        return "prompt"
    return prompts if prompts is not None else "item"
