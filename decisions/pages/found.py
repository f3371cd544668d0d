"""What the addresses of agents' pages name."""

from __future__ import annotations

from django.http import Http404

from decisions.models import Agent
from workspaces.errors import FieldFault, InvalidInput
from workspaces.pages.guard import PageRequest


def get_agent(request: PageRequest, slug: str) -> Agent:
    """Raises Http404."""
    agent: Agent | None = (
        Agent.objects.for_workspace(request.workspace).select_related("registered_model").filter(slug=slug).first()
    )
    if agent is None:
        raise Http404("Agent not found.")
    return agent


def number_of(text: str) -> int:
    """Of `before` in the query: the number of the last version shown. Raises InvalidInput."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 2**31:
        fault = FieldFault("before", "is not a version's number", "a number above 0")
        raise InvalidInput("The address is invalid.", faults=[fault])
    return int(text)
