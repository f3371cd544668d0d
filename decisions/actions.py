"""Is an action inside its action space? Faults carry the path of the field. PURE of database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import referencing
from referencing.exceptions import Unresolvable

from workspaces.errors import FieldFault

MAX_SHOWN = 5


def check_action(
    kind: str, action: Any, *, options: Sequence[str] | None, schema: Mapping[str, Any] | None
) -> list[FieldFault]:
    """Every fault of `action` under an action space of `kind`; empty when it fits."""
    if kind == "choice":
        return _check_choice(action, options)
    if kind == "ranking":
        return _check_ranking(action, options)
    if kind == "structured":
        return _check_structured(action, schema or {})
    if kind == "text":
        return [] if isinstance(action, str) else [FieldFault("action", "is not text", "a string")]
    if kind == "tool_calls":
        return _check_tool_calls(action)
    raise ValueError(f"unknown action space {kind!r}")


def _shown(options: Sequence[str]) -> str:
    more = f" and {len(options) - MAX_SHOWN} more" if len(options) > MAX_SHOWN else ""
    return "one of " + ", ".join(options[:MAX_SHOWN]) + more


def _check_choice(action: Any, options: Sequence[str] | None) -> list[FieldFault]:
    if not options:
        return [FieldFault("options", "is missing", "the options that were offered")]
    if not isinstance(action, str) or action not in options:
        return [FieldFault("action", f"{action!r} was not offered", _shown(options))]
    return []


def _check_ranking(action: Any, options: Sequence[str] | None) -> list[FieldFault]:
    if not options:
        return [FieldFault("options", "is missing", "the options that were offered")]
    if not isinstance(action, list):
        return [FieldFault("action", "is not a list", "an order of offered options")]
    offered = set(options)
    faults = [
        FieldFault(f"action[{index}]", f"{item!r} was not offered", _shown(options))
        for index, item in enumerate(action)
        if not isinstance(item, str) or item not in offered
    ]
    if not faults and len(set(action)) != len(action):
        faults.append(FieldFault("action", "names an option twice", "each option at most once"))
    return faults


def _check_structured(action: Any, schema: Mapping[str, Any]) -> list[FieldFault]:
    # A registry without a retriever: a schema must not make the server fetch anything.
    validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
    try:
        errors = sorted(validator.iter_errors(action), key=lambda e: list(map(str, e.absolute_path)))
    except Unresolvable as error:
        return [FieldFault("action", f"the agent's schema refers to what is not in it: {error}")]
    return [
        FieldFault(
            "action" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path), error.message
        )
        for error in errors
    ]


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Why `schema` is not a usable JSON schema of draft 2020-12; None when it is. References stay inside it."""
    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        return str(error.message)
    for reference in _references(schema):
        if not isinstance(reference, str) or not reference.startswith("#"):
            return f"{reference!r} refers to another document"
    return None


def _references(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for name, inner in node.items():
            if name in {"$ref", "$dynamicRef"} and not isinstance(inner, Mapping):
                yield inner
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _check_tool_calls(action: Any) -> list[FieldFault]:
    if not isinstance(action, list):
        return [FieldFault("action", "is not a list", "a list of {name, arguments}")]
    return [
        FieldFault(f"action[{index}]", "is not a tool call", "{name: text, arguments: object}")
        for index, call in enumerate(action)
        if not (
            isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("arguments"), dict)
        )
    ]
