"""What an action was chosen from: the options of a choice, or every action that a JSON schema allows. PURE.

A structured action is a choice where its fields are enumerable: `enum`, `const`, true or false, whole numbers within
bounds, objects of such fields, alternatives of them, and values that the state offers (`x-offered`, see
`decisions.agents.actions`). Its options are the product of the fields' values, each the canonical JSON of one action.

An option names every field. A field that may be left out counts as left open when it is null, and null is no option of
it; a required field's null is one. `confidence` and `reasoning`, and fields marked `"x-beside": true`, accompany a
choice and are no part of it.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from decisions.agents.actions import OFFERED, Schema, values_at
from decisions.agents.canonical import canonical

MOST = 512
"""Options of a structured action, at most."""
BESIDE = "x-beside"
ALWAYS_BESIDE = frozenset({"confidence", "reasoning"})
NO_CHOICE: Mapping[str, str] = {
    "ranking": "is an order of the options",
    "text": "is free text",
    "tool_calls": "is a list of tool calls",
}
STRUCTURED = "structured"


class Version(Protocol):
    """What is read of an agent's version."""

    @property
    def action_space(self) -> str: ...
    @property
    def options(self) -> Any: ...
    @property
    def action_schema(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Choices:
    """`options`, each once, in the schema's order; None where the action is no choice, and `reason` says why: "the
    action …"."""

    options: tuple[str, ...] | None
    reason: str = ""


class NotEnumerable(ValueError):
    """Its text says why: "the action …"."""


def choices_of(version: Version, state: Mapping[str, Any] | None, options: Sequence[str] | None = None) -> Choices:
    """What could be chosen in this state. `options`: those that were given with the decision.

    `state` None: whether it is a choice in any state; values that a state would offer are then left out.
    """
    if version.action_space == "choice":
        offered = options if options is not None else version.options
        if offered is None:
            return Choices(() if state is None else None, "has no options recorded")
        return Choices(tuple(offered))
    if version.action_space != STRUCTURED:
        return Choices(None, NO_CHOICE[version.action_space])
    try:
        return Choices(_compiled(json.dumps(version.action_schema)).options(state))
    except NotEnumerable as no:
        return Choices(None, str(no))


def option_of(version: Version, action: Any) -> str | None:
    """The option that an action is, without what accompanies it; None where its kind has none. It may not be among
    those of `choices_of`: an action may leave a field open."""
    if version.action_space == "choice":
        return action if isinstance(action, str) else None
    if version.action_space != STRUCTURED or not isinstance(action, Mapping):
        return None
    return canonical(_without_beside(version.action_schema or {}, action))


def action_of(version: Version, option: str) -> Any:
    """The action that an option stands for."""
    return json.loads(option) if version.action_space == STRUCTURED else option


def fields_beside(version: Version) -> list[str]:
    """The fields at the top of a structured action that are no part of the choice."""
    properties = (version.action_schema or {}).get("properties", {})
    return [name for name, inner in properties.items() if is_beside(name, inner)]


class _Compiled:
    """One schema. Options that do not depend on the state are made once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.whole = Schema(schema, "action")
        self.no: NotEnumerable | None = None
        self.fixed: tuple[str, ...] | None = None
        try:
            if self.whole.offers:
                list(_values(schema, None, ()))
            else:
                self.fixed = self._find(None)
        except NotEnumerable as no:
            self.no = no

    def options(self, state: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Raises NotEnumerable."""
        if self.no is not None:
            raise self.no
        if self.fixed is not None:
            return self.fixed
        return () if state is None else self._find(state)

    def _find(self, state: Mapping[str, Any] | None) -> tuple[str, ...]:
        values = _values(self.schema, state, ())
        # Other rules of the schema, such as if and then, may forbid a combination.
        found = tuple(dict.fromkeys(canonical(value) for value in values if self.whole.fits(value)))
        if not found:
            raise NotEnumerable("has no combination of values that its schema allows")
        return found


@functools.lru_cache(maxsize=256)
def _compiled(schema: str) -> _Compiled:
    return _Compiled(json.loads(schema) or {})


def _values(schema: Any, state: Mapping[str, Any] | None, place: tuple[str, ...]) -> list[Any]:
    """Every value that the schema allows at `place`. Without a state, what it would offer counts as one value. Raises
    NotEnumerable."""
    if not isinstance(schema, Mapping):
        raise _no(place, "may be anything")
    if "const" in schema:
        return [schema["const"]]
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    if isinstance(source := schema.get(OFFERED), str):
        if state is None:
            return [source]
        if not (offered := [value for value in values_at(state, source) if isinstance(value, str)]):
            raise _no(place, f"has nothing to choose from: the state holds nothing at {source}")
        return offered
    for name in ("anyOf", "oneOf"):
        if isinstance(alternatives := schema.get(name), list):
            return [value for one in alternatives for value in _values(one, state, place)]
    if isinstance(kinds := schema.get("type"), list):
        return [value for kind in kinds for value in _values({**schema, "type": kind}, state, place)]
    if kinds == "object":
        return _objects(schema, state, place)
    if kinds == "boolean":
        return [True, False]
    if kinds == "null":
        return [None]
    if kinds == "integer" and (bounds := _bounds(schema)) is not None:
        return list(range(*bounds))
    raise _no(place, f"is {kinds or 'anything'}, which cannot be enumerated")


def _objects(schema: Mapping[str, Any], state: Mapping[str, Any] | None, place: tuple[str, ...]) -> list[Any]:
    fields: dict[str, list[Any]] = {}
    for name, values in _fields(schema, state, place):
        fields[name] = values
    count = math.prod(map(len, fields.values()))
    if not fields:
        raise _no(place, "has no fields to choose")
    if count > MOST:
        raise _no(place, f"has {count:,} combinations of values, more than {MOST}")
    return [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]


def _fields(
    schema: Mapping[str, Any], state: Mapping[str, Any] | None, place: tuple[str, ...]
) -> Iterator[tuple[str, list[Any]]]:
    """Each field of the choice with its values."""
    required = schema.get("required") or ()
    for name, inner in (schema.get("properties") or {}).items():
        if is_beside(name, inner):
            if name in required:
                raise _no((*place, name), "is required, but is not part of the choice")
            continue
        values = _values(inner, state, (*place, name))
        if name not in required:
            values = [value for value in values if value is not None]
        if values:
            yield name, values


def _bounds(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """From the least whole number up to one beyond the greatest; None where a bound is missing, or they are many."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and (above := schema.get("exclusiveMinimum")) is not None:
        low = math.floor(above) + 1
    if high is None and (below := schema.get("exclusiveMaximum")) is not None:
        high = math.ceil(below) - 1
    if low is None or high is None or high - low >= MOST:
        return None
    return math.ceil(low), math.floor(high) + 1


def _without_beside(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the choice; one that may be left out and is null is left out."""
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    kept = {}
    for name, inner in value.items():
        told = properties.get(name)
        if is_beside(name, told) or (inner is None and name not in required):
            continue
        if isinstance(inner, Mapping) and isinstance(told, Mapping):
            inner = _without_beside(told, inner)
        kept[name] = inner
    return kept


def is_beside(name: str, schema: Any) -> bool:
    return name in ALWAYS_BESIDE or (isinstance(schema, Mapping) and schema.get(BESIDE) is True)


def _no(place: tuple[str, ...], reason: str) -> NotEnumerable:
    return NotEnumerable(f"{reason}" if not place else f"has a field {'.'.join(place)} that {reason}")
