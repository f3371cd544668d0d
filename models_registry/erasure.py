"""The registry's part of a person's erasure: units of exposures and observations, marks, files.

The job in `training.lineage.erasure` calls it; the ledger's part is `decisions.erasure.erasing`. A unit becomes a
pseudonym, the same everywhere, so that arms, counts and outcomes of experiments stay what they were.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from models_registry.artifacts.collecting import remove_files
from models_registry.models import Artifact
from workspaces.models import Workspace

# Someone may meet an experiment again while their erasure runs: that second row gets its own id as well, or it would
# break the rule of one exposure a unit.
_EXPOSURES = """
WITH mine AS (
  SELECT id, experiment_id, phase_id,
         %(prefix)s || left(encode(sha256(%(secret)s || convert_to(unit, 'UTF8')), 'hex'), 32) AS pseudonym
    FROM models_registry_exposure
   WHERE workspace_id = %(workspace)s AND unit NOT LIKE %(prefix)s || '%%'
     AND (id = ANY(%(ids)s) OR unit = %(unit)s)
), named AS (
  SELECT m.id, CASE WHEN EXISTS (SELECT 1 FROM models_registry_exposure e
                                  WHERE e.experiment_id = m.experiment_id AND e.phase_id = m.phase_id
                                    AND e.unit = m.pseudonym)
                    THEN m.pseudonym || ':' || m.id ELSE m.pseudonym END AS unit
    FROM mine m
)
UPDATE models_registry_exposure e SET unit = n.unit FROM named n WHERE e.id = n.id
"""
_OBSERVATIONS = """
UPDATE models_registry_observation o
   SET unit = CASE WHEN EXISTS (SELECT 1 FROM models_registry_observation p
                                 WHERE p.experiment_id = o.experiment_id AND p.unit = e.unit)
                   THEN e.unit || ':' || o.id ELSE e.unit END
  FROM models_registry_exposure e
 WHERE o.exposure_id = e.id AND o.workspace_id = %(workspace)s AND e.unit LIKE %(prefix)s || '%%'
   AND o.unit NOT LIKE %(prefix)s || '%%'
"""
_DOWNSTREAM = """
WITH RECURSIVE made AS (
  SELECT id FROM models_registry_modelversion WHERE workspace_id = %(workspace)s AND id = ANY(%(ids)s)
  UNION
  SELECT v.id FROM models_registry_modelversion v JOIN made m ON v.parent_id = m.id OR v.base_id = m.id
)
UPDATE models_registry_modelversion v SET marked_at = %(now)s FROM made m WHERE v.id = m.id AND v.marked_at IS NULL
"""


def erase_exposures(
    *, workspace: Workspace, ids: Collection[uuid.UUID], unit: str | None, secret: bytes, prefix: str
) -> dict[str, int]:
    """Exposures by id or by unit, and the observations made of them. Call inside a transaction."""
    known: dict[str, Any] = {
        "workspace": workspace.id,
        "ids": list(ids),
        "unit": unit,
        "secret": secret,
        "prefix": prefix,
    }
    with connection.cursor() as cursor:
        cursor.execute(_EXPOSURES, known)
        exposures = cursor.rowcount
        observations = 0
        if exposures:
            cursor.execute(_OBSERVATIONS, known)
            observations = cursor.rowcount
    return {"exposures": exposures, "observations": observations}


def count_exposures(*, workspace: Workspace, ids: Collection[uuid.UUID], unit: str | None) -> dict[str, int]:
    """What `erase_exposures` would change."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*), count(o.id) FROM models_registry_exposure e
                 LEFT JOIN models_registry_observation o ON o.exposure_id = e.id
                WHERE e.workspace_id = %(workspace)s AND (e.id = ANY(%(ids)s) OR e.unit = %(unit)s)""",
            {"workspace": workspace.id, "ids": list(ids), "unit": unit},
        )
        exposures, observations = cursor.fetchone()
    return {"exposures": exposures, "observations": observations}


def mark_versions(*, workspace: Workspace, ids: Collection[uuid.UUID], now: dt.datetime) -> int:
    """Marks these versions and all that were trained from them or stand on them; returns how many are newly marked."""
    with connection.cursor() as cursor:
        cursor.execute(_DOWNSTREAM, {"workspace": workspace.id, "ids": list(ids), "now": now})
        return int(cursor.rowcount)


def remove_artifact(*, artifact: Artifact) -> bool:
    """Removes the files for good; the row stays and says when. False where another workspace holds the same content.

    Call outside a transaction: the row says it first, so that nobody is sent to files that are going, and a removal
    that was cut off is done again.
    """
    with transaction.atomic():
        locked = Artifact.objects.select_for_update().get(id=artifact.id)
        if locked.removed_at is None:
            locked.removed_at = timezone.now()
            locked.save(update_fields=["removed_at"])
    return remove_files(locked.digest)
