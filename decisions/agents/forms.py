"""What a server is told of the form of an answer: a JSON schema for one state, and the tools that may be called. PURE.

The gateway sends these with what it has written; the answer is checked by the agent's own schema afterwards
(`decisions.agents.actions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from decisions.agents.actions import OFFERED, values_at
from decisions.agents.choices import BESIDE

MOST_BOUND = 200
"""Longer lists and texts are bounded by the tokens of the answer; grammars of such bounds are slow to follow."""
_BOUNDS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_LEFT_OUT = frozenset({OFFERED, BESIDE, "default", "uniqueItems"})
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_ALTERNATIVES = ("anyOf", "oneOf")


class NothingOffered(ValueError):
    """A field must have a value of the state, which holds none. Its text says where: "the state holds nothing at …"."""


class Version(Protocol):
    """What is read of an agent's version."""

    @property
    def options(self) -> Any: ...
    @property
    def action_schema(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Nothing:
    """No value fits: the state holds none at `source`."""

    source: str


def form_of(schema: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with the values that this state offers written out (`x-offered`), without what only a check afterwards
    can ask. Fields are in the order in which training writes them. Raises NothingOffered."""
    found = _form(schema, state)
    if isinstance(found, _Nothing):
        raise NothingOffered(f"the state holds nothing at {found.source}")
    return dict(found)


def _form(schema: Any, state: Mapping[str, Any]) -> Any:
    """The schema's form, or _Nothing."""
    if not isinstance(schema, Mapping):
        return schema
    if isinstance(source := schema.get(OFFERED), str):
        offered = list(dict.fromkeys(value for value in values_at(state, source) if isinstance(value, str)))
        return {"type": "string", "enum": offered} if offered else _Nothing(source)
    form: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _LEFT_OUT or (name in _BOUNDS and isinstance(value, int) and value > MOST_BOUND):
            continue
        if name in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            fields = {field: _form(inner, state) for field, inner in sorted(value.items())}
            for field, inner in fields.items():
                if isinstance(inner, _Nothing) and field in (schema.get("required") or ()):
                    return inner
            form[name] = {field: inner for field, inner in fields.items() if not isinstance(inner, _Nothing)}
        elif name in _ALTERNATIVES and isinstance(value, list):
            parts = [_form(one, state) for one in value]
            if nothing := [one for one in parts if isinstance(one, _Nothing)]:
                parts = [one for one in parts if not isinstance(one, _Nothing)]
                if not parts:
                    return nothing[0]
            form[name] = parts
        elif name == "items":
            inner = _form(value, state)
            form |= {"maxItems": 0} if isinstance(inner, _Nothing) else {"items": inner}
        else:
            form[name] = value
    if "items" in schema and "items" not in form:
        form["maxItems"] = 0
    return form


def tools_of(version: Version, options: Sequence[str] | None) -> list[dict[str, Any]]:
    """The tools that a chat's agent may call, as {name, description, parameters}; empty where nothing says them.

    They are the `properties` of the version's schema, each with the schema of its tool's arguments. `options`, given
    with a decision or the version's own, are the names of those on offer; one without a schema takes any object.
    References inside the schemas may point to `$defs` of the whole.
    """
    whole = version.action_schema or {}
    described = whole.get("properties") or {}
    shared = {"$defs": whole["$defs"]} if "$defs" in whole else {}
    names = options if options is not None else version.options
    tools = []
    for name in sorted(described) if names is None else names:
        schema = described.get(name)
        schema = schema if isinstance(schema, Mapping) else {}
        parameters = {key: value for key, value in schema.items() if key != "description"}
        tools.append(
            {
                "name": name,
                "description": str(schema.get("description", "")),
                "parameters": {"type": "object", **parameters, **shared},
            }
        )
    return tools
