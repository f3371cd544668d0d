"""Reads the audit with one set of filters for the page, the CSV and the API."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import AuditEntry, Workspace, WorkspaceQuerySet
from workspaces.storage.ids import uuid7_bound

FIRST_DAY = dt.date(1970, 1, 1)
ACTIONS_OF = 2_000
"""So many of the newest entries say which actions a filter offers."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`since` and `until` are days in UTC, both included."""

    actor: str = ""
    action: str = ""
    target: str = ""
    since: dt.date | None = None
    until: dt.date | None = None

    def as_query(self) -> dict[str, str]:
        """For an address: only what was given."""
        given = {
            "actor": self.actor,
            "action": self.action,
            "target": self.target,
            "since": self.since.isoformat() if self.since else "",
            "until": self.until.isoformat() if self.until else "",
        }
        return {name: value for name, value in given.items() if value}


def read_filter(given: Mapping[str, str]) -> AuditFilter:
    """From an address' query. Raises InvalidInput, with all faults."""
    faults: list[FieldFault] = []
    days: dict[str, dt.date | None] = {}
    for name in ("since", "until"):
        text = given.get(name, "").strip()
        try:
            days[name] = dt.date.fromisoformat(text) if text else None
        except ValueError:
            faults.append(FieldFault(name, f"{text[:40]!r} is not a date", "a date such as 2026-11-22"))
        else:
            if (day := days[name]) is not None and day < FIRST_DAY:
                faults.append(FieldFault(name, f"{text} is before 1970", "a date such as 2026-11-22"))
    for name, most in (("actor", 254), ("action", 64), ("target", 128)):
        if len(given.get(name, "")) > most:
            faults.append(FieldFault(name, "is too long", f"at most {most} characters"))
        if "\0" in given.get(name, ""):
            faults.append(FieldFault(name, "contains a NUL character", "text without it"))
    if faults:
        raise InvalidInput("The filter is invalid.", faults=faults)
    texts = {name: given.get(name, "").strip() for name in ("actor", "action", "target")}
    return AuditFilter(**texts, since=days["since"], until=days["until"])


def find_entries(workspace: Workspace, wanted: AuditFilter) -> WorkspaceQuerySet:
    """Newest first. Days bound the ids, which hold the time, so that they cost no index of their own."""
    found = AuditEntry.objects.for_workspace(workspace).order_by("-id")
    for name in ("actor", "action", "target"):
        if value := getattr(wanted, name):
            found = found.filter(**{name: value})
    if wanted.since:
        found = found.filter(id__gte=uuid7_bound(_midnight(wanted.since)))
    if wanted.until and wanted.until < dt.date.max:
        found = found.filter(id__lt=uuid7_bound(_midnight(wanted.until + dt.timedelta(days=1))))
    return found


def list_actions(workspace: Workspace) -> list[str]:
    newest = AuditEntry.objects.for_workspace(workspace).order_by("-id").values_list("action", flat=True)[:ACTIONS_OF]
    return sorted(set(newest))


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)
