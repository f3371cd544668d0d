"""Exports: versions as files that other programs load."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from training.engine.spec.export_formats import hash_options
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

NO_OPTIONS = hash_options({})


class ExportFormat(models.TextChoices):
    MERGED = "merged", "Merged weights (safetensors)"
    LORA = "lora", "LoRA adapter (peft)"
    ONNX = "onnx", "ONNX"
    GGUF = "gguf", "GGUF (llama.cpp)"
    OLLAMA = "ollama", "Ollama"
    SKLEARN = "sklearn", "scikit-learn (skops) and sentence-transformers"


class ExportState(models.TextChoices):
    """A refused one was made and differs too much from its version: its report stays, its files do not."""

    QUEUED = "queued", "Queued"
    READY = "ready", "Ready"
    REFUSED = "refused", "Refused"
    FAILED = "failed", "Failed"


LIVE = (ExportState.QUEUED, ExportState.READY)


class ExportJob(WorkspaceOwned):
    """`options`: the format's own (`training.engine.spec.export_spec.ExportPlan.options`; of ollama its `quantisation`,
    `profile` and `host`), by their hash once for a version and format.

    `report`: what the engine says of the files and of their parity, `ExportReport` as JSON; of whole weights that are
    exported as they are {"same_files": true}; of ollama the GGUF's, and `ollama`: {name, digest, profile}.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="exports")
    format = models.CharField(max_length=16, choices=ExportFormat.choices, default=ExportFormat.MERGED)
    options = models.JSONField(default=dict, blank=True)
    options_hash = models.CharField(max_length=64, default=NO_OPTIONS, editable=False)
    state = models.CharField(max_length=16, choices=ExportState.choices, default=ExportState.QUEUED)
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="export")
    artifact = models.ForeignKey(
        "models_registry.Artifact", on_delete=models.PROTECT, null=True, blank=True, related_name="exports"
    )
    report = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["version", "format", "options_hash"],
                condition=Q(state__in=["queued", "ready"]),
                name="export_once",
            ),
            models.CheckConstraint(
                condition=Q(state="ready", artifact__isnull=False) | (~Q(state="ready") & Q(artifact__isnull=True)),
                name="export_artifact_exactly_when_ready",
            ),
            models.CheckConstraint(condition=~Q(state="refused") | ~Q(report={}), name="export_report_when_refused"),
        ]

    def __str__(self) -> str:
        return f"{self.version} as {self.name}"

    @property
    def name(self) -> str:
        """For names of files, unique among a version's live exports: merged, gguf-Q4_K_M, onnx-cache."""
        options: dict[str, Any] = self.options
        parts = [self.format, options.get("quantisation") or "", "cache" if options.get("cache") else ""]
        return "-".join(part for part in parts if part)

    @property
    def choice(self) -> str:
        """As forms name it: merged, onnx:cache, gguf:Q4_K_M."""
        return self.name.replace("-", ":")

    @property
    def title(self) -> str:
        """For people: GGUF (llama.cpp), Q4_K_M."""
        detail = self.options.get("quantisation") or ("with a cache" if self.options.get("cache") else "")
        return f"{self.get_format_display()}, {detail}" if detail else self.get_format_display()
