"""Which shape the actions of an agent's version have, and which kind of dataset holds their rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.choices import choices_of
from decisions.models import ActionSpaceKind, Agent, AgentVersion
from training.models import DatasetKind
from training.rows.selection import Rewarded
from training.rows.shapes_of import choice, findings, ranking, text


@dataclass(frozen=True, slots=True)
class Shape:
    """`name` is that of its file. `write_rows` gives a decision's rows, or why it makes none."""

    name: str
    kind: DatasetKind
    write_rows: Callable[[Rewarded], list[dict[str, Any]] | str]


CHOICE = Shape("choice", DatasetKind.LOGGED, choice.write_rows)
RANKING = Shape("ranking", DatasetKind.LOGGED, ranking.write_rows)
FINDINGS = Shape("findings", DatasetKind.LOGGED, findings.write_rows)
TEXT = Shape("text", DatasetKind.TEXT, text.write_rows)


def shape_of(version: AgentVersion) -> Shape:
    """A structured action that its schema cannot enumerate is a text, as tool calls are."""
    if version.action_space == ActionSpaceKind.RANKING:
        return RANKING
    return CHOICE if choices_of(version, None).options is not None else TEXT


def shape_for(version: AgentVersion, kind: str) -> Shape | None:
    """Of its rows in a dataset of this kind; None where it makes none. Findings are a text, and scored pairs too."""
    shape = shape_of(version)
    if shape.kind == kind:
        return shape
    lists = kind == FINDINGS.kind and findings.find_findings(version.action_schema) is not None
    return FINDINGS if lists else None


def find_versions(
    agent: Agent, kind: str, only: AgentVersion | None = None
) -> tuple[Mapping[uuid.UUID, AgentVersion], Mapping[uuid.UUID, Shape]]:
    """The agent's versions, or the only one that is asked for, whose actions make rows of this kind of dataset; each
    with its shape."""
    versions = [only] if only is not None else list(agent.versions.all())
    shapes = {version.id: shape for version in versions if (shape := shape_for(version, kind)) is not None}
    return {version.id: version for version in versions if version.id in shapes}, shapes
