"""Rows of the content-addressed store: a row is made only once its files are complete and visible."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class ArtifactKind(models.TextChoices):
    MODEL = "model", "Model"
    ADAPTER = "adapter", "Adapter"
    REWARD_MODEL = "reward_model", "Reward model"
    CLASSIFIER = "classifier", "Classifier"
    ENCODER = "encoder", "Sentence encoder"
    DATASET = "dataset", "Dataset"
    EXPORT = "export", "Export"


NO_POLICIES = (ArtifactKind.REWARD_MODEL, ArtifactKind.ENCODER)
"""Kinds of weights that decide nothing by themselves: such versions serve no traffic."""


class Artifact(WorkspaceOwned):
    """`digest` is the SHA-256 of the artifact's canonical manifest, which names every file's SHA-256.

    Once `removed_at` is set the files are gone, or about to go: nothing held them, or a person had erased what they
    held. Storing the content again brings them back. `stored_at` is when that was done last.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=16, choices=ArtifactKind.choices)
    digest = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    meta = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    stored_at = models.DateTimeField(default=timezone.now, db_default=Now())
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "digest"], name="artifact_once"),
            models.CheckConstraint(condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="artifact_digest_is_sha256"),
            models.CheckConstraint(condition=Q(kind__in=ArtifactKind.values), name="artifact_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.digest[:12]}"
