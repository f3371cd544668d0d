"""What people write about a run: tags to find it by, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from training.models import TrainingRun
from workspaces.actors import Actor
from workspaces.errors import InvalidInput
from workspaces.notes import find_note_faults
from workspaces.services import record_audit


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
