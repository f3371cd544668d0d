"""What people write about a version: tags to find it by, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from models_registry.models import ModelVersion
from workspaces.access.actors import Actor
from workspaces.notes import write_notes


def note_version(
    *, by: Actor, version: ModelVersion, tags: Sequence[str] | None = None, notes: str | None = None
) -> ModelVersion:
    """Replaces what is given; None stays. Raises InvalidInput with every fault."""
    target = f"model_version:{version.pk}"
    write_notes(by=by, row=version, tags=tags, notes=notes, action="version.noted", target=target, name=str(version))
    return version
