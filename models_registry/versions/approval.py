"""A person's approval of a version. A workspace may want it before a version gets traffic, promoted by hand or tried in
an experiment. The rule that promotes what won an experiment does not ask again.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from models_registry.errors import NotApproved
from models_registry.models import ModelVersion
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

LONGEST_NOTE = 500


@transaction.atomic
def approve_version(*, by: Actor, version: ModelVersion, note: str = "") -> ModelVersion:
    """Who approves last, counts. Raises InvalidInput for a note that is too long."""
    note = " ".join(note.split())
    if len(note) > LONGEST_NOTE or "\x00" in note:
        fault = FieldFault("note", f"has {len(note)} characters, or a NUL", f"at most {LONGEST_NOTE} characters")
        raise InvalidInput("The approval cannot be kept.", faults=[fault])
    locked = ModelVersion.objects.select_for_update(no_key=True).get(id=version.id)
    locked.approved_at, locked.approved_by, locked.approval_note = timezone.now(), by.name, note
    _keep(by, locked, "version.approved", {"note": note} if note else {})
    return locked


@transaction.atomic
def withdraw_approval(*, by: Actor, version: ModelVersion) -> ModelVersion:
    """What serves already goes on serving."""
    locked = ModelVersion.objects.select_for_update(no_key=True).get(id=version.id)
    if locked.approved_at is not None:
        approver = locked.approved_by
        locked.approved_at, locked.approved_by, locked.approval_note = None, "", ""
        _keep(by, locked, "version.approval_withdrawn", {"approved_by": approver})
    return locked


def require_approval(version: ModelVersion) -> None:
    """Raises NotApproved where the workspace wants an approval and the version has none."""
    wanted = Workspace.objects.filter(id=version.workspace_id, approval_required=True).exists()
    if wanted and not ModelVersion.objects.filter(id=version.id, approved_at__isnull=False).exists():
        raise NotApproved(
            f"{version} is not approved. In this workspace a version needs an approval before it gets traffic."
        )


def _keep(by: Actor, version: ModelVersion, action: str, details: dict[str, str]) -> None:
    version.save(update_fields=["approved_at", "approved_by", "approval_note"])
    record_audit(by=by, action=action, target=f"model_version:{version.id}", details={"name": str(version), **details})
