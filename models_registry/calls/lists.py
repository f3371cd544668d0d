"""Calls for lists: the filters of the API and of the page, and what they find, newest first."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlencode

from django.db.models import Q, QuerySet

from models_registry.models import Backend, Call, CallState, RegisteredModel
from models_registry.versions.references import find_version
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class CallFilters:
    """What a list is narrowed to; empty is all. `agent` is a slug, `version` a reference to one that was assigned or
    served, `backend` the name of the one that answered, or else was asked last."""

    state: str = ""
    agent: str = ""
    version: str = ""
    backend: str = ""

    @property
    def query(self) -> str:
        return urlencode({name: value for name in FILTERS if (value := getattr(self, name))})


FILTERS = tuple(field.name for field in fields(CallFilters))


def read_filters(given: Mapping[str, str]) -> CallFilters:
    """Raises InvalidInput for a state that there is not."""
    filters = CallFilters(**{name: given.get(name, "").strip()[:200] for name in FILTERS})
    if filters.state and filters.state not in CallState.values:
        fault = FieldFault("state", f"{filters.state[:80]!r} is unknown", ", ".join(CallState.values))
        raise InvalidInput("The filter is invalid.", faults=[fault])
    return filters


def find_calls(workspace: Workspace, filters: CallFilters, *, before: uuid.UUID | None = None) -> QuerySet[Call]:
    """Unordered. An agent or a backend that there is not finds nothing. Raises UnknownVersion."""
    found: QuerySet[Call] = Call.objects.for_workspace(workspace).select_related(
        "registered_model", "assigned__registered_model", "served__registered_model", "backend"
    )
    if before is not None:
        found = found.filter(id__lt=before)
    if filters.state:
        found = found.filter(state=filters.state)
    if filters.agent:
        # By ids: joined, the calls of a model that has few would be looked for among all.
        models = RegisteredModel.objects.for_workspace(workspace).filter(agents__slug=filters.agent)
        found = found.filter(registered_model__in=list(models.values_list("id", flat=True)))
    if filters.version:
        version = find_version(workspace, filters.version, field="version")
        found = found.filter(Q(assigned=version) | Q(served=version))
    if filters.backend:
        backends = Backend.objects.for_workspace(workspace).filter(name=filters.backend)
        found = found.filter(backend__in=list(backends.values_list("id", flat=True)))
    return found
