"""The set-up of a kind of agent, and the JSON schemas made from its typed state and action. PURE.

The schemas are stored with the agent's version and check its decisions; people read and edit the structs. A state may
hold more fields than its struct; an action may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=200_000)]
Id = Annotated[str, Meta(min_length=1, max_length=200)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Action(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What every structured action may carry besides."""

    confidence: Share | None = None
    reasoning: Text | None = None


class Thing(msgspec.Struct):
    """An item, a project or a document, as far as the app tells of it."""

    id: Id | None = None
    title: Text | None = None
    name: Text | None = None


class Known(msgspec.Struct):
    """One of those that an action may point to."""

    id: Id


@dataclass(frozen=True, slots=True)
class KindSetup:
    """`system` tells a chat model its part. `about` is where the state holds the item and the project that a decision
    is about, `chosen_at` where its action names the item that it chose; empty where there is none.

    Where two actions are compared, `explains` names the fields, at any depth, that say why or are written out and
    decide nothing; `sets` the lists whose order means nothing."""

    system: str
    prompt_template: str
    state: type[msgspec.Struct]
    action: type[Action] | None = None
    options: Sequence[str] | None = None
    max_prompt_tokens: int = 1024
    max_completion_tokens: int = 256
    unit: str = "item"
    item_at: str = ""
    project_at: str = ""
    chosen_at: str = ""
    explains: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()

    @property
    def action_space(self) -> str:
        return "choice" if self.action is None else "structured"


BESIDE = Meta(extra_json_schema={"x-beside": True})
"""For an Annotated field: it accompanies the choice and is no part of it (decisions.agents.choices)."""


def offered(source: str) -> Meta:
    """For an Annotated text: the value must stand at `source` in the state (decisions.agents.actions)."""
    return Meta(min_length=1, max_length=200, extra_json_schema={"x-offered": source})


def state_schema(setup: KindSetup) -> dict[str, Any]:
    return _schema(setup.state)


def action_schema(setup: KindSetup) -> dict[str, Any] | None:
    return None if setup.action is None else _schema(setup.action)


def _schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The struct's JSON schema with every reference put in its place."""
    (schema,), components = msgspec.json.schema_components([struct], ref_template="{name}")

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return inline(components[node["$ref"]])
            # Names of structs and their docstrings; a field may be called so too, and then its schema is no text.
            said = {name for name in ("title", "description") if isinstance(node.get(name), str)}
            return {name: inline(inner) for name, inner in node.items() if name not in said}
        return [inline(inner) for inner in node] if isinstance(node, list) else node

    return dict(inline(schema))
