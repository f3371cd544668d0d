"""Feedback for the API's list, in the order of its ids, by the index of the workspace's newest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet

from decisions.agents.current import find_agent_id
from decisions.models import Decision, Feedback
from workspaces.models import Workspace

EQUAL = ("decision", "unit", "metric", "source")
"""Parameters that are columns."""


def find_feedback(workspace: Workspace, query: Mapping[str, Any]) -> QuerySet[Feedback]:
    """Filters feedback. `agent`: on its decisions and episodes; `episode`: on it and on its decisions. Raises
    InvalidInput for an agent that is not there."""
    found: QuerySet[Feedback] = Feedback.objects.for_workspace(workspace).defer("content_hash")
    found = found.filter(**{name: query[name] for name in EQUAL if name in query})
    if "agent" in query:
        agent = find_agent_id(workspace, query["agent"])
        found = found.filter(Q(decision__agent_id=agent) | Q(episode__agent_id=agent))
    if "episode" in query:
        decisions = Decision.objects.for_workspace(workspace).filter(episode=query["episode"])
        ids = list(decisions.order_by().values_list("id", flat=True))
        found = found.filter(Q(episode=query["episode"]) | Q(decision__in=ids))
    return found
