"""The audit. Append-only: a trigger refuses UPDATE and DELETE (migration 0002)."""

from __future__ import annotations

from django.db import models

from workspaces.models.workspace import WorkspaceOwned
from workspaces.storage.ids import uuid7


class AuditEntry(WorkspaceOwned):
    """`actor` is a person's e-mail, a key's prefix or `system`; `target` is `model:id`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.DO_NOTHING, related_name="+")
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=254)
    action = models.CharField(max_length=64)
    target = models.CharField(max_length=128)
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"
