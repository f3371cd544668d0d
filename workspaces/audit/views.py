"""The page of the audit, and the same entries as CSV. For admins."""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workspaces.audit.queries import AuditFilter, find_entries, list_actions, read_filter
from workspaces.audit.targets import find_names
from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

SHOWN = 50
COLUMNS = ("at", "actor", "action", "target", "target_name", "details")
CHUNK = 2_000


@require_safe
@workspace_page(role=Role.ADMIN)
def audit(request: PageRequest) -> HttpResponse:
    """A filter that is not usable shows its faults, and the entries without it."""
    faults: dict[str, str] = {}
    wanted = AuditFilter()
    try:
        wanted = read_filter(request.GET)
    except InvalidInput as error:
        faults = {fault.field: f"{fault.reason}; {fault.expected}" for fault in error.faults}
    found = find_entries(request.workspace, wanted)
    before = _read_before(request.GET.get("before", ""))
    if before is not None:
        found = found.filter(id__lt=before)
    rows = list(found[: SHOWN + 1])
    names = find_names(rows[:SHOWN])
    query = wanted.as_query()
    context: dict[str, Any] = {
        "entries": [(entry, names.get(entry.target, "")) for entry in rows[:SHOWN]],
        "actions": list_actions(request.workspace),
        "wanted": wanted,
        "given": request.GET,
        "faults": faults,
        "query": urlencode(query),
        "before": before,
        "older": urlencode(query | {"before": str(rows[SHOWN - 1].id)}) if len(rows) > SHOWN else "",
    }
    return render(request, "workspaces/audit.html", context, status=400 if faults else 200)


@require_safe
@workspace_page(role=Role.ADMIN)
def audit_csv(request: PageRequest) -> HttpResponse:
    """Every entry that the filter finds, streamed. What a spreadsheet would take for a formula gets an apostrophe."""
    found = find_entries(request.workspace, read_filter(request.GET))
    response = StreamingHttpResponse(_lines(found), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="audit-{request.workspace.slug}.csv"'
    return response  # type: ignore[return-value]


class _Echo:
    def write(self, value: str) -> str:
        return value


def _lines(found: Any) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    entries = found.iterator(chunk_size=CHUNK)
    while chunk := list(islice(entries, CHUNK)):
        names = find_names(chunk)
        for entry in chunk:
            named = (entry.target, names.get(entry.target, ""))
            cells = (entry.at.isoformat(), entry.actor, entry.action, *named, json.dumps(entry.details))
            yield writer.writerow([_plain(cell) for cell in cells])


def _plain(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _read_before(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
