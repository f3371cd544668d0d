"""What every template may read beside its view's context: the workspace, the role, the way around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from workspaces.models import Role
from workspaces.pages import may


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation."""

    title: str
    url: str
    here: bool


SECTIONS = (
    ("Overview", "pages:overview", ()),
    ("Decisions", "pages:decisions", ("decisions",)),
    ("Runs", "pages:runs", ("runs",)),
    ("Models", "pages:models", ("models",)),
    ("Experiments", "pages:experiments", ("experiments",)),
)


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Empty outside a workspace: log-in, error pages and the choice have no sections."""
    workspace = getattr(request, "workspace", None)
    role = getattr(request, "role", None)
    if workspace is None or role is None:
        return {}
    # /w/<slug>/<section>/…
    section = request.path.split("/")[3:4]
    return {
        "workspace": workspace,
        "places": [
            Place(
                title, reverse(name, args=[workspace.slug]), section == list(below) or (not below and section == [""])
            )
            for title, name, below in SECTIONS
        ],
        "may_label": may(role, Role.LABELLER),
        "is_admin": may(role, Role.ADMIN),
    }
