"""What people write about a run: tags to find it by, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from training.models import TrainingRun
from workspaces.access.actors import Actor
from workspaces.notes import write_notes


def note_run(
    *, by: Actor, run: TrainingRun, tags: Sequence[str] | None = None, notes: str | None = None
) -> TrainingRun:
    """Replaces what is given; None stays. Raises InvalidInput with every fault."""
    write_notes(by=by, row=run, tags=tags, notes=notes, action="run.noted", target=f"run:{run.pk}")
    return run
