"""The agent that a command is about, by its kind or its slug."""

from __future__ import annotations

from django.db.models import QuerySet

from decisions.models import Agent, AgentKind

MOST_NAMED = 20


class NoSingleAgent(ValueError):
    """None, or several; the message names those that could be meant."""


def find_agent(agents: QuerySet[Agent], wanted: str) -> Agent:
    """The one of this kind (FILER, LIBRARIAN, …), or else with this slug, among the agents. Raises NoSingleAgent."""
    is_kind = wanted in AgentKind.values
    found = list(agents.filter(**{"kind" if is_kind else "slug": wanted}).order_by("slug")[: MOST_NAMED + 1])
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.slug for one in (found or agents.order_by("slug"))[:MOST_NAMED]) or "none"
    raise NoSingleAgent(f"--agent-type: {len(found) or 'no'} agents are {wanted!r}; name one of: {known}")
