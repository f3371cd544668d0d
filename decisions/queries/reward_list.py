"""Rewards for the API's list: in the order of their decisions, which indexes of the decisions find."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Cast, Collate, Concat, LPad

from decisions.agents.current import find_agent_id
from decisions.models import Decision, Reward
from workspaces.models import Workspace

PLACE = "place"
"""Annotates a reward: decision, spec and version as text, in the order of the list."""
_PLACE = Collate(
    Concat(
        Cast("decision_id", TextField()),
        Value("/"),
        Cast("spec_id", TextField()),
        Value("/"),
        LPad(Cast("version", TextField()), 10, Value("0")),
        output_field=TextField(),
    ),
    "C",
)
EQUAL = {"decision": "id", "episode": "episode_id"}


def find_rewards(
    workspace: Workspace,
    query: Mapping[str, Any],
    *,
    between: tuple[uuid.UUID, uuid.UUID],
    newer: bool,
    most: int,
) -> QuerySet[Reward]:
    """The rewards of the page's decisions, every version of them; `between` and `newer` as
    `decisions.queries.decision_list` has them. Two statements, with the one that reads them. Raises InvalidInput for an
    agent that is not there."""
    spec = {"spec__number": query["spec"]} if "spec" in query else {}
    low, high = between
    decisions = Decision.objects.for_workspace(workspace).filter(id__gt=low, id__lt=high)
    decisions = decisions.filter(**{column: query[name] for name, column in EQUAL.items() if name in query})
    if "agent" in query:
        decisions = decisions.filter(agent_id=find_agent_id(workspace, query["agent"]))
    rewarded = decisions.filter(Exists(Reward.objects.filter(decision=OuterRef("id"), **spec)))
    ids = list(rewarded.order_by("id" if newer else "-id").values_list("id", flat=True)[:most])
    return Reward.objects.filter(decision__in=ids, **spec).select_related("spec__agent").annotate(**{PLACE: _PLACE})
