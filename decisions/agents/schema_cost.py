"""Counts how often a JSON schema has a value checked, so that none can be stored that takes years. PURE.

Alternatives and references multiply: of 30 definitions that each name the next one twice, the last is checked 2³⁰
times. What goes deeper into the value, as a tree's branches do, may refer to itself, and is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

MOST_CHECKS = 100_000
"""Subschemas that one value may be checked against: some 10 ms."""
LISTS, SINGLE, NAMED = ("allOf", "anyOf", "oneOf"), ("not", "if", "then", "else"), ("dependentSchemas",)
"""Keywords whose schemas see the same value: lists of schemas, one schema, and schemas by name."""
DEEPER_LISTS, DEEPER_NAMED = ("prefixItems",), ("properties", "patternProperties")
DEEPER_SINGLE = (
    *("items", "contains", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)
"""Keywords whose schemas see a part of it."""


class Endless(ValueError):
    """A schema refers to itself for the same value."""


@dataclass(slots=True)
class _Counter:
    anchors: Mapping[tuple[int, str], Any]
    """By the place in memory of the nearest schema with an $id, and their name."""
    roots: Mapping[int, Any]
    """By each schema's place in memory, the nearest one with an $id."""
    counted: dict[int, int] = field(default_factory=dict)
    same_value: set[int] = field(default_factory=set)
    """Those that the present ones came through without going deeper into the value."""
    under_way: set[int] = field(default_factory=set)

    def count(self, schema: Any) -> int:
        if not isinstance(schema, Mapping):
            return 1
        here = id(schema)
        if here in self.same_value:
            raise Endless
        if here in self.counted or here in self.under_way:
            return self.counted.get(here, 1)
        self.under_way.add(here)
        self.same_value.add(here)
        total = 1 + sum(map(self.count, self._find_beside(schema)))
        above, self.same_value = self.same_value - {here}, set()
        total += max(map(self.count, _find_deeper(schema)), default=0)
        self.same_value = above
        self.under_way.discard(here)
        self.counted[here] = total = min(total, MOST_CHECKS + 1)
        return total

    def _find_beside(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        yield from _find(schema, LISTS, SINGLE, NAMED)
        root = self.roots[id(schema)]
        for name in ("$ref", "$dynamicRef"):
            if isinstance(reference := schema.get(name), str) and reference.startswith("#"):
                yield self._resolve(root, reference[1:])

    def _resolve(self, root: Any, place: str) -> Any:
        """True, which costs nothing, where nothing stands there: the validator has said so."""
        if place and not place.startswith("/"):
            return self.anchors.get((id(root), place), True)
        node = root
        for part in unquote(place).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
                node = node[int(part)]
            elif isinstance(node, Mapping) and part in node:
                node = node[part]
            else:
                return True
        return node


def count_checks(schema: Mapping[str, Any]) -> int:
    """Subschemas that one value is checked against, at most MOST_CHECKS + 1. Raises Endless, RecursionError."""
    roots: dict[int, Any] = {}
    anchors: dict[tuple[int, str], Any] = {}
    _note(schema, schema, roots, anchors)
    return _Counter(anchors, roots).count(schema)


def find_cost_fault(schema: Mapping[str, Any]) -> str | None:
    """Why checking a value may not end in time; None where it does."""
    try:
        checks = count_checks(schema)
    except Endless:
        return "it refers to itself without going deeper into the value, so checking one would not end"
    except RecursionError:
        return "it is nested too deeply"
    if checks > MOST_CHECKS:
        return f"one value would be checked against more than {MOST_CHECKS:,} schemas: its references multiply"
    return None


def _note(node: Any, root: Any, roots: dict[int, Any], anchors: dict[tuple[int, str], Any]) -> None:
    if isinstance(node, Mapping):
        root = node if isinstance(node.get("$id"), str) else root
        roots[id(node)] = root
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := node.get(name), str):
                anchors[id(root), anchor] = node
    for inner in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        _note(inner, root, roots, anchors)


def _find_deeper(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from _find(schema, DEEPER_LISTS, DEEPER_SINGLE, DEEPER_NAMED)


def _find(
    schema: Mapping[str, Any], lists: tuple[str, ...], single: tuple[str, ...], named: tuple[str, ...]
) -> Iterator[Any]:
    for name in lists:
        yield from schema[name] if isinstance(schema.get(name), list) else ()
    for name in single:
        yield from (schema[name],) if name in schema else ()
    for name in named:
        yield from schema[name].values() if isinstance(schema.get(name), Mapping) else ()
