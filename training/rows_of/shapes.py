"""Which shape the actions of an agent's version have, and which kind of dataset holds their rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.choices import choices_of
from decisions.models import ActionSpaceKind, Agent, AgentVersion
from training.models import DatasetKind
from training.rows_of import choice, ranking, text
from training.selection import Rewarded


@dataclass(frozen=True, slots=True)
class Shape:
    """`name` is that of its file. `write_rows` gives a decision's rows, or why it makes none."""

    name: str
    kind: DatasetKind
    write_rows: Callable[[Rewarded], list[dict[str, Any]] | str]


CHOICE = Shape("choice", DatasetKind.LOGGED, choice.write_rows)
RANKING = Shape("ranking", DatasetKind.LOGGED, ranking.write_rows)
TEXT = Shape("text", DatasetKind.TEXT, text.write_rows)


def shape_of(version: AgentVersion) -> Shape:
    """A structured action that its schema cannot enumerate is a text, as tool calls are."""
    if version.action_space == ActionSpaceKind.RANKING:
        return RANKING
    return CHOICE if choices_of(version, None).options is not None else TEXT


def find_versions(
    agent: Agent, kind: str, only: AgentVersion | None = None
) -> tuple[Mapping[uuid.UUID, AgentVersion], Mapping[uuid.UUID, Shape]]:
    """The agent's versions, or the only one that is asked for, whose actions make rows of this kind of dataset; each
    with its shape."""
    versions = [only] if only is not None else list(agent.versions.all())
    shapes = {version.id: shape_of(version) for version in versions}
    found = {version.id: version for version in versions if shapes[version.id].kind == kind}
    return found, {pk: shapes[pk] for pk in found}
