"""Context of every template: the workspace, the role, the navigation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.http import HttpRequest
from django.urls import reverse

from workspaces.models import Membership, Role
from workspaces.pages.guard import PageRequest, may


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation."""

    title: str
    url: str
    here: bool
    icon: str
    key: str
    """After g it leads here."""


SECTIONS = (
    ("Overview", "pages:overview", "", "house", "o"),
    ("Decisions", "pages:decisions", "decisions", "list-checks", "d"),
    ("Episodes", "pages:episodes", "episodes", "layers", "p"),
    ("Agents", "pages:agents", "agents", "bot", "a"),
    ("Datasets", "pages:datasets", "datasets", "database", "t"),
    ("Environments", "pages:environments", "environments", "component", "v"),
    ("Runs", "pages:runs", "runs", "activity", "r"),
    ("Models", "pages:models", "models", "box", "m"),
    ("Backends", "pages:backends", "backends", "cpu", "b"),
    ("Experiments", "pages:experiments", "experiments", "flask-conical", "e"),
    ("Rehearsals", "pages:rehearsals", "rehearsals", "drama", "h"),
)
"""The sidebar: title, URL name, the segment of the path below the workspace, icon, key. A new section is one line."""


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Empty outside a workspace: log-in, error pages and the choice have no sections."""
    workspace = getattr(request, "workspace", None)
    role = getattr(request, "role", None)
    if workspace is None or role is None:
        return {}
    # /w/<slug>/<section>/…
    section = "".join(request.path.split("/")[3:4])
    return {
        "workspace": workspace,
        "places": [
            Place(title, reverse(name, args=[workspace.slug]), section == below, icon, key)
            for title, name, below, icon, key in SECTIONS
        ],
        # Read by whole pages only: a lazy queryset costs the polled parts nothing.
        "memberships": Membership.objects.active()
        .filter(user=cast(PageRequest, request).user)
        .select_related("workspace")
        .order_by("workspace__name"),
        "role_name": Role(role).label,
        "may_label": may(role, Role.LABELLER),
        "is_admin": may(role, Role.ADMIN),
    }
