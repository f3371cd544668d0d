"""How many bytes of artifacts a workspace may have (RECKONER_ARTIFACT_QUOTA_BYTES).

Checked before work starts that would make an artifact, and again when it is stored. Content that two workspaces have
counts for both.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import connection
from django.db.models import Sum
from django.template.defaultfilters import filesizeformat

from models_registry.errors import QuotaExceeded
from models_registry.models import Artifact
from workspaces.models import Workspace


def measure_use(workspace_id: uuid.UUID) -> int:
    """Bytes of the workspace's artifacts whose files are there."""
    rows = Artifact.objects.filter(workspace=workspace_id, removed_at=None)
    return int(rows.aggregate(total=Sum("size_bytes"))["total"] or 0)


def refuse_over_quota(workspace: Workspace, needed: int = 1) -> None:
    """Raises QuotaExceeded where `needed` more bytes do not fit."""
    quota = settings.ARTIFACT_QUOTA_BYTES
    if quota <= 0:
        return
    used = measure_use(workspace.id)
    if used + needed > quota:
        more = f"{_size(needed)} more do not fit" if needed > 1 else "nothing more fits"
        raise QuotaExceeded(
            f"The workspace has {_size(used)} of artifacts of {_size(quota)} that it may have: {more}. "
            "Retire versions that are not needed, or have RECKONER_ARTIFACT_QUOTA_BYTES raised."
        )


def lock_use(workspace: Workspace) -> None:
    """Until the end of the transaction nobody else adds to the workspace's artifacts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"artifacts:{workspace.id}"])


def _size(count: int) -> str:
    return filesizeformat(count).replace("\xa0", " ")
