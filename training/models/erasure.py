"""Erasures and their results. A finished one does not say who was erased."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from decisions.erasure.erasing import PersonKind
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Erasure(WorkspaceOwned):
    """`subject` and `secret` stand here only while there is work to do. `fingerprint` is an HMAC over kind and subject:
    who knows them can tell whether and when it was done. `counts` are rows changed, by kind."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=8, choices=PersonKind.choices)
    subject = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - NULL: forgotten
    secret = models.BinaryField(max_length=32, null=True, blank=True)
    fingerprint = models.CharField(max_length=64)
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="erasure")
    counts = models.JSONField(default=dict)
    requested_by = models.CharField(max_length=254)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=PersonKind.values), name="erasure_kind_known"),
            models.CheckConstraint(
                condition=Q(finished_at__isnull=True, subject__isnull=False, secret__isnull=False)
                | Q(finished_at__isnull=False, subject__isnull=True, secret__isnull=True),
                name="erasure_forgets_when_finished",
            ),
            models.UniqueConstraint(
                fields=["workspace", "fingerprint"],
                condition=Q(finished_at__isnull=True),
                name="erasure_once_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"erasure {str(self.id)[-6:]}"

    @property
    def state(self) -> str:
        """In the words of jobs; "succeeded" once nothing is left to do."""
        if self.finished_at is not None:
            return "succeeded"
        return self.job.state if self.job is not None else "queued"
