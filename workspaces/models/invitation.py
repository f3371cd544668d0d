"""Invitations: a link that lets one person join a workspace with one role. Only the HMAC of its token is stored."""

from __future__ import annotations

import datetime as dt

from django.db import models
from django.db.models.functions import Lower

from workspaces.models.workspace import Role, WorkspaceOwned
from workspaces.storage.ids import uuid7


class Invitation(WorkspaceOwned):
    """At most one for an address is open at a time: neither accepted nor revoked. An expired one is still open until
    the next one for its address revokes it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Role.choices)
    token_hmac = models.BinaryField(max_length=32, unique=True)
    created_by = models.ForeignKey("workspaces.User", on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey("workspaces.User", on_delete=models.SET_NULL, null=True, related_name="+")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_known"),
            models.CheckConstraint(
                condition=models.Q(accepted_at__isnull=True) | models.Q(revoked_at__isnull=True),
                name="invitation_accepted_or_revoked",
            ),
            models.UniqueConstraint(
                "workspace",
                Lower("email"),
                condition=models.Q(accepted_at__isnull=True, revoked_at__isnull=True),
                name="invitation_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} as {self.role}"

    def state(self, now: dt.datetime) -> str:
        """open, accepted, revoked or expired."""
        if self.accepted_at is not None:
            return "accepted"
        if self.revoked_at is not None:
            return "revoked"
        return "open" if self.expires_at > now else "expired"
