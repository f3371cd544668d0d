"""What people write about a run: tags to find it by, and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from django.db import transaction

from training.models import TrainingRun
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.services import record_audit

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


@transaction.atomic
def note_run(
    *, by: Actor, run: TrainingRun, tags: Sequence[str] | None = None, notes: str | None = None
) -> TrainingRun:
    """Replaces what is given; None stays. Raises InvalidInput with every fault."""
    chosen = sorted(set(tags)) if tags is not None else run.tags
    written = notes if notes is not None else run.notes
    if faults := find_note_faults(chosen, written):
        raise InvalidInput("These notes cannot be kept.", faults=faults)
    TrainingRun.objects.filter(pk=run.pk).update(tags=chosen, notes=written)
    record_audit(by=by, action="run.noted", target=f"run:{run.pk}", details={"tags": chosen})
    run.refresh_from_db(fields=["tags", "notes"])
    return run
