"""Which way an agent's actions come about: by its action space, a file each."""

from __future__ import annotations

from dataclasses import dataclass

from decisions.agents.choices import choices_of
from decisions.gateway import choosing, ranking, writing
from decisions.gateway.questions import Do, Want
from decisions.models import ActionSpaceKind, AgentVersion


@dataclass(frozen=True, slots=True)
class Way:
    """How an item is asked, and how a reply becomes an action. `most`: items in one call. `act_greedily`: the likeliest
    action instead of a drawn one; None where there is none."""

    want: Want
    act: Do
    most: int = 256
    act_greedily: Do | None = None


CHOOSING = Way(choosing.want, choosing.act, act_greedily=choosing.act_greedily)
RANKING = Way(ranking.want, ranking.act)
WRITING = Way(writing.want, writing.act, most=32)


def way_of(version: AgentVersion) -> Way:
    """A structured action that its schema enumerates is chosen, another one is written."""
    if version.action_space == ActionSpaceKind.RANKING:
        return RANKING
    return CHOOSING if choices_of(version, None).options is not None else WRITING
