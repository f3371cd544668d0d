"""Which fields of an agent's actions decide, for everything that compares two actions."""

from __future__ import annotations

from decisions.agents.choices import Version, fields_beside
from decisions.agents.current import find_current_version
from decisions.agents.kinds import KINDS
from decisions.models import Agent
from training.engine.spec.compared import Compared


def find_compared(agent: Agent) -> Compared:
    """By the agent's kind and its current version."""
    return compared_of(agent.kind, find_current_version(agent))


def compared_of(kind: str, version: Version | None) -> Compared:
    """By the kind of agent, and by what the version's schema marks as beside the choice."""
    setup = KINDS.get(kind)
    explains, sets = (setup.explains, setup.sets) if setup is not None else (frozenset[str](), frozenset[str]())
    beside = fields_beside(version) if version is not None else ()
    return Compared(explains=tuple(sorted(explains.union(beside))), sets=tuple(sorted(sets)))
