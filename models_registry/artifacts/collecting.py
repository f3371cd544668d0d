"""Garbage collection of the store: removes artifacts that nothing holds, and files without a row.

The daily removal and `manage.py collect_artifacts` call it. Rows stay, and say when their files went.

An artifact's row is the lock between its collection and a new use (`holders.require_files`). An advisory lock on the
digest is the one between removing files and storing the same content again (`services.store_artifact`).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from models_registry.artifacts.holders import find_holders
from models_registry.artifacts.opening import clear_folder, hide_folder, list_digests
from models_registry.models import Artifact, VersionState
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit

BATCH = 500


@dataclass(frozen=True, slots=True)
class Unheld:
    """What can go: an artifact, or (without a row) files that a killed writer or remover left."""

    digest: str
    bytes: int
    kind: str
    workspace: str
    id: uuid.UUID | None


def find_unheld(before: dt.datetime) -> Iterator[Unheld]:
    """What nothing holds and nobody has stored or retired since then. Nothing is locked: `collect_artifacts` looks
    again."""
    for batch in _batches(before):
        held = find_holders([artifact.id for artifact in batch])
        for artifact in batch:
            if artifact.id not in held:
                yield Unheld(artifact.digest, artifact.size_bytes, artifact.kind, artifact.workspace.slug, artifact.id)
    for digest in _without_row(before):
        yield Unheld(digest, 0, "files without a row", "", None)


def _batches(before: dt.datetime) -> Iterator[list[Artifact]]:
    after = uuid.UUID(int=0)
    while batch := list(_candidates(before).filter(id__gt=after).select_related("workspace").order_by("id")[:BATCH]):
        yield batch
        after = batch[-1].id


def _candidates(before: dt.datetime) -> QuerySet[Artifact]:
    """By age alone: stored before then, and no version of it retired since."""
    fresh = Q(versions__state=VersionState.RETIRED, versions__retired_at__gte=before)
    fresh |= Q(versions__adapters__state=VersionState.RETIRED, versions__adapters__retired_at__gte=before)
    young = Artifact.objects.filter(fresh).values("id")
    return Artifact.objects.filter(removed_at=None, stored_at__lt=before).exclude(id__in=young)


def _without_row(before: dt.datetime) -> Iterator[str]:
    """Digests in the store that no workspace has."""
    for digest, since in list(list_digests()):
        if not Artifact.objects.filter(digest=digest, removed_at=None).exists() and (
            since < before.timestamp() or Artifact.objects.filter(digest=digest).exists()
        ):
            yield digest


def collect_artifacts(before: dt.datetime) -> Iterator[int]:
    """Removes what `find_unheld` finds, each after another look under its lock; yields 1 for each that went."""
    for unheld in find_unheld(before):
        if unheld.id is not None and not _mark_removed(unheld.id, before):
            continue
        remove_files(unheld.digest)
        yield 1


def _mark_removed(artifact_id: uuid.UUID, before: dt.datetime) -> bool:
    """False where it got a holder, or was stored again, since it was found."""
    with transaction.atomic():
        locked = Artifact.objects.select_for_update().select_related("workspace").get(id=artifact_id)
        # The look comes after the lock: whoever began to use it has committed by now, or waits and finds it removed.
        if find_holders([locked.id]) or not _candidates(before).filter(id=locked.id).exists():
            return False
        locked.removed_at = timezone.now()
        locked.save(update_fields=["removed_at"])
        note_removal(by=system(locked.workspace), artifact=locked, reason="nothing holds it")
    return True


def note_removal(*, by: Actor, artifact: Artifact, reason: str) -> None:
    record_audit(
        by=by,
        action="artifact.removed",
        target=f"artifact:{artifact.id}",
        details={"digest": artifact.digest, "kind": artifact.kind, "bytes": artifact.size_bytes, "reason": reason},
    )


def lock_digest(digest: str) -> None:
    """Until the end of the transaction nobody else puts this content's row in, or takes its files out."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(digest[:15], 16)])


def remove_files(digest: str) -> bool:
    """Takes the files out of the store unless a workspace still has the content; False then. Call outside a
    transaction. One that was cut off is done by the next collection."""
    with transaction.atomic():
        lock_digest(digest)
        if Artifact.objects.filter(digest=digest, removed_at=None).exists():
            return False
        hide_folder(digest)
    clear_folder(digest)
    return True
