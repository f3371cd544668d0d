"""Decisions for the API's list: its filters, each served by an index, whatever the ledger holds.

The list is read in the order of ids. That serves times, agents, items and versions, whose indexes end with the id;
episodes and names are found first, for the page that is asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from decisions.agents.current import find_agent_id
from decisions.models import Decision, Episode
from decisions.queries.by_name import find_named
from models_registry.versions.references import find_version
from workspaces.models import Workspace

COLUMNS = {"item": "item_ref", "unit": "unit", "episode": "episode_id", "external_id": "external_id"}
"""Parameters of the list, and the columns that must hold what they say."""
NAMES = ("external_id", "unit")


def find_equalities(workspace: Workspace, query: Mapping[str, Any]) -> dict[str, Any]:
    """By column what it must hold. Raises InvalidInput for an agent that is not there, UnknownVersion."""
    equal = {column: query[name] for name, column in COLUMNS.items() if name in query}
    if "session" in query:
        sessions = Episode.objects.for_workspace(workspace).filter(session=query["session"])
        equal["episode_id__in"] = list(sessions.values_list("id", flat=True))
    if "agent" in query:
        equal["agent_id"] = find_agent_id(workspace, query["agent"])
    if "version" in query:
        equal["model_version_id"] = find_version(workspace, query["version"], field="version").id
    return equal


def find_page_of_names(
    workspace: Workspace,
    equal: Mapping[str, Any],
    *,
    between: tuple[uuid.UUID, uuid.UUID],
    newer: bool,
    most: int,
) -> Collection[uuid.UUID] | None:
    """Ids among which the page's decisions are; None where the order of ids finds them. `newer`: the page is read from
    its older end."""
    low, high = between
    episodes = {lookup: equal[lookup] for lookup in ("episode_id", "episode_id__in") if lookup in equal}
    if episodes:
        found = Decision.objects.for_workspace(workspace).filter(**episodes)
        return list(found.filter(id__gt=low, id__lt=high).order_by().values_list("id", flat=True))
    if "item_ref" in equal:
        return None
    name = next((column for column in NAMES if column in equal), None)
    if name is None:
        return None
    rest = {column: value for column, value in equal.items() if column != name}
    return find_named(workspace, equal[name], columns=[name], equal=rest, between=between, ascending=newer, most=most)
