"""The page *Erasures*, for admins: preview an erasure, start it, see its progress."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from decisions.erasure.erasing import PersonKind
from training.lineage.erasure import preview_erasure, read_person, start_erasure
from training.models import Erasure
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

SHOWN = 100
COLUMNS = ("decisions", "items", "datasets", "versions")
STAYING = {"items_shared": "item", "projects_shared": "project"}


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def erasure_list(request: PageRequest) -> HttpResponse:
    """POST counts what would be found; with `confirmed` it starts. The name is never put into an address."""
    context: dict[str, Any] = {"kinds": PersonKind.choices, "kind": PersonKind.UNIT.value}
    if request.method == "POST":
        kind, name = request.POST.get("kind", ""), request.POST.get("name", "")
        person = read_person(
            unit=name if kind == PersonKind.UNIT else None, user=name if kind == PersonKind.USER else None
        )
        if request.POST.get("confirmed"):
            start_erasure(by=request.actor, person=person)
            messages.success(request, "The erasure has started. This page shows its progress.")
            return redirect("pages:erasures", request.workspace.slug)
        counts = preview_erasure(workspace=request.workspace, person=person)
        context |= {
            "kind": kind,
            "name": name,
            "counts": [(key.replace("_", " "), n) for key, n in counts.items() if n and key not in STAYING],
            "staying": [(counts[key], thing) for key, thing in STAYING.items() if counts[key]],
            "counted": True,
        }
    found = Erasure.objects.for_workspace(request.workspace).select_related("job").order_by("-id")[:SHOWN]
    rows = [(erasure, [(name.capitalize(), erasure.counts.get(name, 0)) for name in COLUMNS]) for erasure in found]
    return render(request, "training/erasures.html", context | {"rows": rows, "columns": [c.title() for c in COLUMNS]})
