"""What people write about a row to find it again: tags, and notes. Services of runs and versions keep them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput

TAG = re.compile(r"[\w.:/-]{1,50}")
MOST_TAGS, LONGEST_NOTES = 20, 5000
STATED_TAGS = {"items": {"pattern": f"^{TAG.pattern}$"}, "maxItems": MOST_TAGS}
"""OpenAPI of a list of tags."""


def find_note_faults(tags: Iterable[str], notes: str) -> list[FieldFault]:
    faults = [
        FieldFault("tags", f"{tag[:60]!r} is not a tag", "1 to 50 letters, digits or . _ : / -")
        for tag in tags
        if not TAG.fullmatch(tag)
    ]
    if len(set(tags)) > MOST_TAGS:
        faults.append(FieldFault("tags", f"{len(set(tags))} are given", f"at most {MOST_TAGS}"))
    if len(notes) > LONGEST_NOTES or "\x00" in notes:
        faults.append(FieldFault("notes", f"{len(notes)} characters, or a NUL", f"at most {LONGEST_NOTES} characters"))
    return faults


@transaction.atomic
def write_notes(
    *, by: Actor, row: Any, tags: Sequence[str] | None, notes: str | None, action: str, target: str, **details: Any
) -> None:
    """Replaces what is given of the row's `tags` and `notes`; None stays. Raises InvalidInput with every fault."""
    chosen = sorted(set(tags)) if tags is not None else row.tags
    written = notes if notes is not None else row.notes
    if faults := find_note_faults(chosen, written):
        raise InvalidInput("These notes cannot be kept.", faults=faults)
    type(row)._default_manager.filter(pk=row.pk).update(tags=chosen, notes=written)
    record_audit(by=by, action=action, target=target, details={**details, "tags": chosen})
    row.refresh_from_db(fields=["tags", "notes"])
