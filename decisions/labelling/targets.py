"""What of an agent's actions the auto-labeler can suggest. PURE.

One of the options; an item that belongs first; fields of a structured action that have a few values each, or take one
that the state offers; else the verdict, since nobody can enumerate what else the action could have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.actions import OFFERED
from decisions.agents.choices import STRUCTURED, Version, choices_of, is_beside

OPTION, FIRST, FIELDS, VERDICT = "option", "first", "fields", "verdict"


class NothingToChoose(ValueError):
    """The action can only be one thing; the text says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is learnt by itself: a field of the action at `path`, or with an empty path the whole of it. `items`: its
    values differ from decision to decision. `source`: where in the state they stand; empty where the decision's options
    are the items."""

    path: tuple[str, ...] = ()
    items: bool = False
    source: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Target:
    """`kind` is OPTION, FIRST, FIELDS or VERDICT. `whole`: all parts together are an action. `why`: what else of the
    action is not suggested, and why."""

    kind: str
    parts: tuple[Part, ...]
    whole: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class _OneField:
    """A structured action space of this field alone."""

    action_schema: Mapping[str, Any]
    action_space: str = STRUCTURED
    options: None = None


def find_target(version: Version) -> Target:
    """Raises NothingToChoose."""
    if version.action_space == "choice":
        if version.options is not None and len(version.options) < 2:
            raise NothingToChoose("it has only one option")
        return Target(OPTION, (Part(),))
    if version.action_space == "ranking":
        return Target(FIRST, (Part(items=True),), why="Of an order only the first item is suggested.")
    found = choices_of(version, None)
    why = "" if found.options is not None else f"The action {found.reason}, so only {{}} suggested."
    if version.action_space == STRUCTURED:
        if found.options is not None and len(found.options) == 1:
            raise NothingToChoose("its schema allows only one action")
        if parts := tuple(_find_parts(version.action_schema or {}, ())):
            return Target(FIELDS, parts, whole=found.options is not None, why=why.format("some fields are"))
    return Target(VERDICT, (Part(),), whole=False, why=why.format("the verdict is"))


def _find_parts(schema: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[Part]:
    for name, inner in (schema.get("properties") or {}).items():
        if is_beside(name, inner) or not isinstance(inner, Mapping):
            continue
        path = (*place, name)
        if source := _find_source(inner):
            yield Part(path, items=True, source=source)
        elif inner.get("type") == "object":
            yield from _find_parts(inner, path)
        elif _is_enumerable(inner):
            yield Part(path)


def _find_source(schema: Mapping[str, Any]) -> str:
    """Where the state offers the field's values; empty where it does not."""
    alternatives = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    sources = (one.get(OFFERED) for one in alternatives if isinstance(one, Mapping))
    return next((source for source in sources if isinstance(source, str)), "")


def _is_enumerable(schema: Mapping[str, Any]) -> bool:
    field = {"type": "object", "properties": {"field": schema}, "required": ["field"]}
    return choices_of(_OneField(field), None).options is not None
