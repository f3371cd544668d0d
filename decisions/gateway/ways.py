"""Which way an agent's actions come about: by its action space, a file each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from decisions.agents.choices import choices_of
from decisions.agents.current import CurrentAgent
from decisions.gateway import choosing, ranking, writing
from decisions.gateway.requests import DrawnAction, ModelReply, Rendering
from decisions.ingest.schemas import DecideItem
from decisions.models import ActionSpaceKind, AgentVersion
from workspaces.errors import FieldFault

Render = Callable[[CurrentAgent, DecideItem], Rendering]
"""The prompt of an item, with the faults for which the agent cannot answer it."""
Draw = Callable[[ModelReply, random.Random], DrawnAction]
"""The action of a request that was answered."""


@dataclass(frozen=True, slots=True)
class Way:
    """How an item is asked, and how a reply becomes an action. `most`: items in one call. `draw_greedily`: the
    likeliest action instead of a drawn one; None where there is none."""

    render: Render
    draw: Draw
    most: int = 256
    draw_greedily: Draw | None = None


CHOOSING = Way(choosing.render, choosing.draw, draw_greedily=choosing.draw_greedily)
RANKING = Way(ranking.render, ranking.draw)
WRITING = Way(writing.render, writing.draw, most=32)


def way_of(version: AgentVersion) -> Way:
    """A structured action that its schema enumerates is chosen, another one is written."""
    if version.action_space == ActionSpaceKind.RANKING:
        return RANKING
    return CHOOSING if choices_of(version, None).options is not None else WRITING


def render(acting: CurrentAgent, item: DecideItem) -> Rendering:
    """The item as this version of the agent asks about it."""
    rendering = way_of(acting.version).render(acting, item)
    if item.places is None or rendering.prompt is None or acting.version.action_space == ActionSpaceKind.RANKING:
        return rendering
    return replace(
        rendering, faults=[*rendering.faults, FieldFault("places", "is given to an agent that does not rank", "none")]
    )
