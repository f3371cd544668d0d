"""Fields of a form from a JSON schema: which control a schema gets.

Enumerations, texts, numbers, true or false, lists of texts or of an enumeration, each also null or left out, and
objects of these, one level deep. Everything else is a field for JSON, so every schema has a form. Whether the result
fits is asked of the schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from decisions.agents.actions import OFFERED, values_at
from decisions.agents.prompts import as_text
from decisions.agents.references import resolve
from decisions.editors.parts import MISSING, read_value

LONG = 1_000
"""A text that may have more characters gets a box of several lines."""
LONG_NOW = 80
MOST_CHOICES = 200
"""More values than that are typed."""


@dataclass(frozen=True, slots=True)
class Field:
    """`name` is the form's, `path` the place in the action, `before` the agent's value or MISSING. kind: text, long,
    number, pick, ticks, lines, json, group. `choices` are values with their labels."""

    name: str
    path: str
    label: str
    kind: str
    before: Any = MISSING
    required: bool = False
    nullable: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """What a schema refers to: the whole of which it is a part, and the decision's state."""

    root: Mapping[str, Any]
    state: Mapping[str, Any]


def is_object(schema: Any) -> bool:
    return isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping)


def make_fields(
    schema: Mapping[str, Any], before: Any, around: Around, *, name: str, path: str, depth: int = 0
) -> tuple[Field, ...]:
    """A field for each property of an object's schema, the required ones first. `before` is the agent's object, or
    MISSING."""
    required = schema.get("required", ())
    values = before if isinstance(before, dict) else {}
    return tuple(
        make_field(
            inner,
            values.get(key, MISSING),
            around,
            name=f"{name}/{key.replace('~', '~0').replace('/', '~1')}",
            path=f"{path}.{key}",
            label=key,
            required=key in required,
            depth=depth,
        )
        for key, inner in sorted(schema["properties"].items(), key=lambda pair: pair[0] not in required)
    )


def make_field(
    schema: Any,
    before: Any,
    around: Around,
    *,
    name: str,
    path: str,
    label: str,
    required: bool,
    depth: int = 0,
) -> Field:
    plain, nullable = _without_null(resolve(schema, around.root), around.root)
    field = Field(name, path, label, "json", before, required, nullable)
    kind, choices = _kind_of(plain, around)
    if is_object(plain) and depth == 0 and (before is MISSING or before is None or isinstance(before, dict)):
        inner = make_fields(plain, before, around, name=name, path=path, depth=1)
        return replace(field, kind="group", fields=inner)
    if not _can_hold(kind, before, choices):
        return field
    return replace(field, kind=kind, choices=choices)


def _without_null(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema of what is not null, and whether it may be null."""
    for alternatives in ("anyOf", "oneOf"):
        given = schema.get(alternatives)
        if isinstance(given, list):
            inner = [resolve(one, root) for one in given]
            others = [one for one in inner if one.get("type") != "null"]
            # Of several alternatives none is the form's.
            return others[0] if len(others) == 1 else {}, len(others) < len(inner)
    if isinstance(kinds := schema.get("type"), list):
        left = [kind for kind in kinds if kind != "null"]
        schema = {**schema, "type": left[0] if len(left) == 1 else ""}
        return schema, len(left) < len(kinds)
    if isinstance(values := schema.get("enum"), list) and None in values:
        return {**schema, "enum": [one for one in values if one is not None]}, True
    return schema, False


def _kind_of(schema: Mapping[str, Any], around: Around) -> tuple[str, tuple[tuple[Any, str], ...]]:
    """Which control, and the values that it offers."""
    kind = schema.get("type")
    if choices := _choices_of(schema, around):
        return "pick", choices
    if kind == "string":
        longest = schema.get("maxLength", 0)
        return "long" if isinstance(longest, int) and longest > LONG else "text", ()
    if kind in {"number", "integer"}:
        return "number", ()
    if kind == "array":
        items = resolve(schema.get("items", {}), around.root)
        if choices := _choices_of(items, around):
            return "ticks", choices
        if items.get("type") == "string":
            return "lines", ()
    return "json", ()


def _choices_of(schema: Mapping[str, Any], around: Around) -> tuple[tuple[Any, str], ...]:
    if "const" in schema:
        return ((schema["const"], read_value(schema["const"])),)
    if isinstance(values := schema.get("enum"), list):
        return tuple((value, read_value(value)) for value in values)
    if schema.get("type") == "boolean":
        return (True, "yes"), (False, "no")
    if isinstance(source := schema.get(OFFERED), str):
        return _offered(source, around.state)
    return ()


def _offered(source: str, state: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """The state's values at `source`; beside an id stands the title or the name of what has it."""
    found = [value for value in values_at(state, source) if isinstance(value, str)]
    if len(found) > MOST_CHOICES:
        return ()
    titles: dict[str, str] = {}
    if source.endswith("[].id"):
        for thing in values_at(state, source.removesuffix(".id")):
            if isinstance(thing, Mapping) and isinstance(thing.get("id"), str):
                titles[thing["id"]] = next(
                    (as_text(thing[key]) for key in ("title", "name") if isinstance(thing.get(key), str)), ""
                )
    return tuple((value, f"{value}: {titles[value]}" if titles.get(value) else value) for value in dict.fromkeys(found))


def _can_hold(kind: str, before: Any, choices: Sequence[tuple[Any, str]]) -> bool:
    """Whether the control can say what the agent said; if not, JSON can."""
    if before is MISSING or before is None or kind in {"json", "pick"}:
        return True
    if kind in {"text", "long"}:
        return isinstance(before, str)
    if kind == "number":
        return isinstance(before, int | float) and not isinstance(before, bool)
    if not isinstance(before, list):
        return False
    if kind == "lines":
        return all(isinstance(one, str) and one.strip() == one != "" and "\n" not in one for one in before)
    return len({json.dumps(one) for one in before}) == len(before)
