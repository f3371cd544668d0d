"""Exports: versions as files that other programs load."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.ids import uuid7
from workspaces.models import WorkspaceOwned


class ExportFormat(models.TextChoices):
    MERGED = "merged", "Merged weights (safetensors)"


class ExportState(models.TextChoices):
    QUEUED = "queued", "Queued"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


class ExportJob(WorkspaceOwned):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="exports")
    format = models.CharField(max_length=16, choices=ExportFormat.choices, default=ExportFormat.MERGED)
    state = models.CharField(max_length=16, choices=ExportState.choices, default=ExportState.QUEUED)
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="export")
    artifact = models.ForeignKey(
        "models_registry.Artifact", on_delete=models.PROTECT, null=True, blank=True, related_name="exports"
    )
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "format"], condition=~Q(state="failed"), name="export_once"),
            models.CheckConstraint(
                condition=Q(state="ready", artifact__isnull=False) | (~Q(state="ready") & Q(artifact__isnull=True)),
                name="export_artifact_exactly_when_ready",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} as {self.format}"
