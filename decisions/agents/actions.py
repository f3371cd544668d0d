"""Checks that an action is in its action space, and that a state fits the agent. Faults carry the path. No database.

A `Space` is made once for an agent's version and checks every decision of a batch: a compiled validator takes
microseconds. Patterns are matched in linear time, so that no agent's schema can hold a process.

In the schema of a structured action, the keyword `x-offered` beside a field's type names the place in the state that
holds the allowed values: `{"type": "string", "x-offered": "todoItems[].id"}`. `decisions.agents.choices` reads it, and
`x-beside`, too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from jsonschema_rs import Draft202012Validator, ValidationError

from decisions.agents.chat_actions import CHATTING, find_chat_faults, show_options
from decisions.agents.explaining import MOST_WORK, Allowance, count_parts
from decisions.agents.schema_cost import MOST_CHECKS, Endless, count_checks, find_cost_fault
from workspaces.errors import FieldFault

LINEAR = jsonschema_rs.RegexOptions()
"""Rust's regex: no lookaround, no backreferences, and no pattern that takes longer than its text is long."""
BOUNDED = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)
"""For schemas that were stored before patterns had to be linear: a match that takes more steps counts as none."""
LONGEST_REASON = 300
OPTIONS_OF_ONE_CHECK = 100
"""Values of an `enum` that count as one more schema: an error holds them all."""
OFFERED = "x-offered"
_EACH = "[]"
TYPES = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
WANTED = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
    "uniqueItems": "each of them once",
    "pattern": "text that matches {}",
}
"""What a keyword of a JSON schema asks for."""


def check_action(
    kind: str,
    action: Any,
    *,
    options: Sequence[str] | None,
    schema: Mapping[str, Any] | None,
    state: Mapping[str, Any] | None = None,
) -> list[FieldFault]:
    """Every fault of one `action` under an action space of `kind`; empty when it fits. For many, keep a `Space`."""
    return make_space(kind, schema).action_faults(action, options=options, state=state or {})


@dataclass(frozen=True, slots=True)
class Offer:
    """Values at `place` in the action must stand at `source` in the state: findings[].relatedIds[] at corpus[].id."""

    place: tuple[str, ...]
    source: tuple[str, ...]


class Schema:
    """One JSON schema, compiled; `name` is what its paths begin with."""

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        self.name = name
        self.plain = dict(schema)
        self.offers = tuple(Offer(place, _parts(source)) for place, source in _offers(schema))
        self._checks = _count_checks(self.plain)
        self._validator: Draft202012Validator | None = None
        self._lack = ""
        try:
            self._validator = _compile(self.plain)
        except ValueError as error:  # a schema from before `check_schema`
            self._lack = getattr(error, "message", str(error))

    def fits(self, value: Any) -> bool:
        try:
            return self._validator is not None and not self._is_too_much(value) and self._validator.is_valid(value)
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
            return False

    def faults(self, value: Any) -> list[FieldFault]:
        if self._validator is None:
            return [FieldFault(self.name, f"the agent's schema cannot be used: {self._lack}"[:LONGEST_REASON])]
        if self._is_too_much(value):
            reason = f"is too large for a schema that checks each value {self._checks:,} times"
            return [FieldFault(self.name, reason, "a smaller value, or a schema with fewer alternatives")]
        try:
            if self._validator.is_valid(value):
                return []
            if not _ALLOWANCE.take(count_parts(value) * self._checks):
                reason = "does not fit the agent's schema; too many or too large values were wrong at once to say where"
                return [FieldFault(self.name, reason, "a value that fits the schema")]
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.instance_path)))
        except UnicodeEncodeError:
            return [FieldFault(self.name, "contains half of a character (a lone surrogate)", "whole characters")]
        return [fault for error in errors for inner in _inside(error) for fault in _named(self.name, self.plain, inner)]

    def _is_too_much(self, value: Any) -> bool:
        """Few values are counted: those of schemas with thousands of alternatives."""
        return self._checks > MANY_CHECKS and count_parts(value) * self._checks > MOST_WORK


_ALLOWANCE = Allowance()
MANY_CHECKS = 100


def _count_checks(schema: dict[str, Any]) -> int:
    options = sum(len(values) for values in _found(schema, {"enum"}) if isinstance(values, list))
    try:
        return count_checks(schema) + options // OPTIONS_OF_ONE_CHECK
    except (Endless, RecursionError):  # a schema from before `find_cost_fault`
        return MOST_CHECKS + 1


def _compile(schema: dict[str, Any]) -> Draft202012Validator:
    """Raises ValueError."""
    # Offline: a schema must not make the server fetch anything.
    try:
        return Draft202012Validator(schema, offline=True, pattern_options=LINEAR)
    except ValueError:
        return Draft202012Validator(schema, offline=True, pattern_options=BOUNDED)


@dataclass(frozen=True, slots=True)
class Space:
    """What an action may be, and what a state must hold. `action` and `state` are None where no schema says so."""

    kind: str
    action: Schema | None = None
    state: Schema | None = None

    def faults(self, action: Any, *, options: Sequence[str] | None, state: Mapping[str, Any]) -> list[FieldFault]:
        """Of state and action together; empty when both fit."""
        faults = self.state.faults(state) if self.state is not None else []
        return faults + self.action_faults(action, options=options, state=state)

    def fits_plainly(self, actions: Sequence[Any], options: Sequence[str] | None) -> bool:
        """Whether every action is one of the options and nothing else is asked: then none has `faults`. For batches,
        where most are so; False says nothing."""
        if self.kind != "choice" or self.state is not None or options is None:
            return False
        try:
            return set(actions).issubset(options)
        except TypeError:  # an action that is an object or a list
            return False

    def action_faults(
        self, action: Any, *, options: Sequence[str] | None, state: Mapping[str, Any]
    ) -> list[FieldFault]:
        if self.kind == "choice":
            return _check_choice(action, options)
        if self.kind == "ranking":
            return _check_ranking(action, options)
        if self.kind in CHATTING:
            return find_chat_faults(action, options)
        assert self.action is not None, "a structured action space needs a schema"
        return self.action.faults(action) or _check_offered(self.action.offers, action, state)


def make_space(
    kind: str, action_schema: Mapping[str, Any] | None, state_schema: Mapping[str, Any] | None = None
) -> Space:
    """Raises ValueError for a kind that is none."""
    if kind not in {"choice", "ranking", "structured", "text", "tool_calls"}:
        raise ValueError(f"unknown action space {kind!r}")
    return Space(
        kind,
        Schema(action_schema or {}, "action") if kind == "structured" else None,
        Schema(state_schema, "state") if state_schema is not None else None,
    )


def _check_choice(action: Any, options: Sequence[str] | None) -> list[FieldFault]:
    if not options:
        return [FieldFault("options", "is missing", "the options")]
    if not isinstance(action, str) or action not in options:
        return [FieldFault("action", f"{action!r} is not one of the options", show_options(options))]
    return []


def _check_ranking(action: Any, options: Sequence[str] | None) -> list[FieldFault]:
    if not options:
        return [FieldFault("options", "is missing", "the options")]
    if not isinstance(action, list):
        return [FieldFault("action", "is not a list", "an order of the options")]
    offered = set(options)
    faults = [
        FieldFault(f"action[{index}]", f"{item!r} is not one of the options", show_options(options))
        for index, item in enumerate(action)
        if not isinstance(item, str) or item not in offered
    ]
    if not faults and len(set(action)) != len(action):
        faults.append(FieldFault("action", "repeats an option", "each option at most once"))
    return faults


def _check_offered(offers: Sequence[Offer], action: Any, state: Mapping[str, Any]) -> list[FieldFault]:
    faults = []
    for offer in offers:
        found = list(_values(action, offer.place, "action"))
        if not found:
            continue
        offered = [value for _, value in _values(state, offer.source, "state") if isinstance(value, str)]
        known = set(offered)
        faults += [
            FieldFault(
                path,
                f"{value!r} is not one of the options",
                show_options(offered) if offered else f"a value of state.{'.'.join(offer.source).replace('.[]', '[]')}",
            )
            for path, value in found
            if isinstance(value, str) and value not in known
        ]
    return faults


def _values(node: Any, place: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    """Every value at `place` inside `node`, with its path written out. What is not there is left out."""
    if not place:
        yield path, node
    elif place[0] == _EACH:
        if isinstance(node, list):
            for index, inner in enumerate(node):
                yield from _values(inner, place[1:], f"{path}[{index}]")
    elif isinstance(node, Mapping) and place[0] in node:
        yield from _values(node[place[0]], place[1:], f"{path}.{place[0]}")


def values_at(state: Any, source: str) -> list[Any]:
    """The values at `source` in a state, such as `todoItems[].id`."""
    return [value for _, value in _values(state, _parts(source), "state")]


def _parts(source: str) -> tuple[str, ...]:
    """`todoItems[].id` as ("todoItems", "[]", "id")."""
    parts: list[str] = []
    for part in source.split("."):
        name = part.removesuffix(_EACH)
        parts += [name, _EACH] if name != part else [name]
    return tuple(parts)


def _offers(schema: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where `x-offered` stands in properties, items and alternatives. References are not followed."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(source := schema.get(OFFERED), str):
        yield place, source
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield from _offers(inner, (*place, name))
    if "items" in schema:
        yield from _offers(schema["items"], (*place, _EACH))
    for alternatives in ("anyOf", "oneOf", "allOf"):
        for inner in schema[alternatives] if isinstance(schema.get(alternatives), list) else ():
            yield from _offers(inner, place)


def _inside(error: ValidationError) -> Iterator[ValidationError]:
    """Of alternatives such as "a list or null", the errors of the only one that is of the value's type."""
    details = error.kind.as_dict()
    meant = [
        errors
        for errors in details.get("context", ())
        if not any(inner.kind.name == "type" and inner.instance_path == error.instance_path for inner in errors)
    ]
    if error.kind.name in {"anyOf", "oneOf"} and len(meant) == 1:
        for inner in meant[0]:
            yield from _inside(inner)
    else:
        yield error


def _named(name: str, schema: Mapping[str, Any], error: ValidationError) -> Iterator[FieldFault]:
    """The faults of one error; of a field that is missing or unknown, the path is that field's own."""
    path, details = name + _written(error.instance_path), error.kind.as_dict()
    if error.kind.name == "required":
        yield FieldFault(f"{path}.{details['property']}", "is missing", "a value")
    elif error.kind.name == "additionalProperties":
        known = _known_fields(schema, error.schema_path)
        expected = ("one of " + ", ".join(known))[:LONGEST_REASON] if known else ""
        for field in sorted(details["unexpected"]):
            yield FieldFault(f"{path}.{field}", "is not a known field", expected)
    else:
        yield FieldFault(path, error.message[:LONGEST_REASON], _wanted(error.kind.name, details))


def _known_fields(schema: Mapping[str, Any], path: Sequence[str | int]) -> list[str]:
    """The properties beside the `additionalProperties` at this path in the schema."""
    node: Any = schema
    for part in path[:-1]:  # references are resolved in it
        node = node[part]
    return list(node.get("properties", ()))


def _wanted(keyword: str, details: Mapping[str, Any]) -> str:
    """What would be right, where the keyword says it in a few words."""
    if keyword == "type":
        return " or ".join(TYPES.get(kind, str(kind)) for kind in details["types"])
    if keyword == "enum":
        return show_options([one if isinstance(one, str) else json.dumps(one) for one in details["options"]])
    value = details.get("limit", details.get("pattern", ""))
    return WANTED[keyword].format(value) if keyword in WANTED else ""


def _written(path: Sequence[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Why `schema` is not a usable JSON schema of draft 2020-12; None when it is. References stay inside it."""
    if reason := _unlike_the_draft(json.dumps(dict(schema))):
        return reason
    for reference in _references(schema):
        if not isinstance(reference, str) or not reference.startswith("#"):
            return f"{reference!r} refers to another document"
    if reason := find_cost_fault(schema):
        return reason
    for offered in _found(schema, {OFFERED}):
        if not isinstance(offered, str) or not all(part.removesuffix(_EACH) for part in offered.split(".")):
            return f"{OFFERED}: {offered!r} is not a path in the state, such as items[].id"
    return None


# Checking a schema against the draft takes milliseconds, and the same few are checked again with every version.
@functools.lru_cache(maxsize=256)
def _unlike_the_draft(schema: str) -> str | None:
    try:
        Draft202012Validator(json.loads(schema), offline=True, pattern_options=LINEAR)
    except ValidationError as error:
        if error.kind.name == "format" and error.schema_path[-1:] == ["pattern"]:
            return f"{error.instance!r} is not a pattern without lookaround and backreferences"
        return str(error.message)
    except ValueError as error:
        return str(error)
    return None


def _references(node: Any) -> Iterator[Any]:
    return _found(node, {"$ref", "$dynamicRef"})


def _found(node: Any, names: set[str]) -> Iterator[Any]:
    """The values of these keywords, wherever they stand."""
    if isinstance(node, Mapping):
        for name, inner in node.items():
            if name in names and not isinstance(inner, Mapping):
                yield inner
            yield from _found(inner, names)
    elif isinstance(node, list):
        for inner in node:
            yield from _found(inner, names)
