"""Lists of what agents have: `agent` narrows them to one agent's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers

from decisions.agents.current import refuse_unknown_agent
from workspaces.http.queries import ListQuery
from workspaces.models import Workspace

M = TypeVar("M", bound=Model)


class AgentListQuery(ListQuery):
    agent = serializers.CharField(required=False, max_length=63, help_text="Only this agent's, by its slug")


def of_agent(workspace: Workspace, rows: QuerySet[M], query: Mapping[str, Any]) -> QuerySet[M]:
    """Raises InvalidInput for an agent that is not there."""
    refuse_unknown_agent(workspace, query)
    return rows.filter(agent__slug=query["agent"]) if "agent" in query else rows
