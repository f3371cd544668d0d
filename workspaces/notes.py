"""What people write about a row to find it again: tags, and notes. Services of runs and versions keep them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workspaces.errors import FieldFault

TAG = re.compile(r"[\w.:/-]{1,50}")
MOST_TAGS, LONGEST_NOTES = 20, 5000


def find_note_faults(tags: Iterable[str], notes: str) -> list[FieldFault]:
    faults = [
        FieldFault("tags", f"{tag[:60]!r} is no tag", "1 to 50 letters, digits or . _ : / -")
        for tag in tags
        if not TAG.fullmatch(tag)
    ]
    if len(set(tags)) > MOST_TAGS:
        faults.append(FieldFault("tags", f"{len(set(tags))} are given", f"at most {MOST_TAGS}"))
    if len(notes) > LONGEST_NOTES or "\x00" in notes:
        faults.append(FieldFault("notes", f"{len(notes)} characters, or a NUL", f"at most {LONGEST_NOTES} characters"))
    return faults
