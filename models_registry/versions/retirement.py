"""Retires versions that are not needed any more, and brings them back while their files are there."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from models_registry.artifacts.holders import find_uses, require_files
from models_registry.errors import VersionInUse, VersionRetired
from models_registry.models import ModelVersion, VersionState
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit


@transaction.atomic
def retire_version(*, by: Actor, version: ModelVersion, reason: str = "") -> ModelVersion:
    """Nothing new begins with it, and some time later its files may be removed
    (`models_registry.artifacts.collecting`). Raises VersionInUse, with what uses it."""
    # Artifacts are locked before versions everywhere, or two such transactions could wait for each other.
    if version.state != VersionState.RETIRED:
        require_files(version)
    locked = ModelVersion.objects.select_for_update().get(id=version.id)
    if locked.state == VersionState.RETIRED:
        return locked
    locked.state, locked.retired_at = VersionState.RETIRED, timezone.now()
    locked.save(update_fields=["state", "retired_at"])
    if uses := find_uses([locked.id]).get(locked.id):
        raise VersionInUse(f"{locked} cannot be retired: {', '.join(uses)} uses it.")
    details = {"name": str(locked)} | ({"reason": reason} if reason else {})
    record_audit(by=by, action="version.retired", target=f"model_version:{locked.id}", details=details)
    return locked


def refuse_retired(version: ModelVersion) -> None:
    """Call in the transaction that begins to use it, after `require_files`: until its end nobody retires it. Raises
    VersionRetired."""
    locked = ModelVersion.objects.select_for_update(no_key=True).get(id=version.id)
    if locked.state == VersionState.RETIRED:
        raise VersionRetired(f"{version} is retired; restore it first.")


@transaction.atomic
def restore_version(*, by: Actor, version: ModelVersion) -> ModelVersion:
    """The other way round. Raises ArtifactRemoved where its files, or its base's, are gone."""
    require_files(version)
    locked = ModelVersion.objects.select_for_update().get(id=version.id)
    if locked.state == VersionState.RETIRED:
        locked.state, locked.retired_at = VersionState.READY, None
        locked.save(update_fields=["state", "retired_at"])
        record_audit(
            by=by, action="version.restored", target=f"model_version:{locked.id}", details={"name": str(locked)}
        )
    return locked
