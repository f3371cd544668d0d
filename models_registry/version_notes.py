"""What people write about a version: tags to find it by, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from models_registry.models import ModelVersion
from workspaces.actors import Actor
from workspaces.errors import InvalidInput
from workspaces.notes import find_note_faults
from workspaces.services import record_audit


@transaction.atomic
def note_version(
    *, by: Actor, version: ModelVersion, tags: Sequence[str] | None = None, notes: str | None = None
) -> ModelVersion:
    """Replaces what is given; None stays. Raises InvalidInput with every fault."""
    chosen = sorted(set(tags)) if tags is not None else version.tags
    written = notes if notes is not None else version.notes
    if faults := find_note_faults(chosen, written):
        raise InvalidInput("These notes cannot be kept.", faults=faults)
    ModelVersion.objects.filter(pk=version.pk).update(tags=chosen, notes=written)
    details = {"name": str(version), "tags": chosen}
    record_audit(by=by, action="version.noted", target=f"model_version:{version.pk}", details=details)
    version.refresh_from_db(fields=["tags", "notes"])
    return version
