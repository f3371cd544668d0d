"""Workspaces: every row of the ledger belongs to one."""

from __future__ import annotations

from typing import Any, Self

from django.db import models

from workspaces.storage.ids import uuid7


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    LABELLER = "labeller", "Labeller"
    ADMIN = "admin", "Admin"


class Workspace(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    approval_required = models.BooleanField(
        default=False, db_default=False, help_text="A version needs an approval before it gets traffic"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField("workspaces.User", through="workspaces.Membership", related_name="workspaces")

    def __str__(self) -> str:
        return self.name


class MembershipQuerySet(models.QuerySet["Membership"]):
    def active(self) -> Self:
        """Those that let a person in. A deactivated one stays, so that what the person did keeps its author."""
        return self.filter(deactivated_at=None)


class Membership(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey("workspaces.User", on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)
    deactivated_at = models.DateTimeField(null=True, blank=True)

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace} as {self.role}"


class WorkspaceQuerySet(models.QuerySet[Any]):
    """The one way to rows of a tenant: views and services start from `for_workspace`."""

    def for_workspace(self, workspace: Workspace) -> Self:
        return self.filter(workspace=workspace)


class WorkspaceOwned(models.Model):
    """Base of every model that belongs to a tenant."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        abstract = True
