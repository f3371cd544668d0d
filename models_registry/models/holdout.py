"""Units that keep an earlier version while everybody else gets what is promoted (docs/experiments.md#holdouts)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Holdout(WorkspaceOwned):
    """`share` of a model's units keep `version` until `ends_at`, or until somebody ends it before; they are in no
    experiment meanwhile. Nothing is decided by it.

    `salt` is 128 bits of hexadecimal: who is held is told by a hash (`routing.is_in_lane`). `figures` is what
    `models_registry.experiments.holdouts` counted last, at `counted_at`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(
        "models_registry.RegisteredModel", on_delete=models.CASCADE, related_name="holdouts"
    )
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.PROTECT, related_name="holdouts")
    share = models.FloatField()
    salt = models.CharField(max_length=32)
    reason = models.CharField(max_length=500)
    started_by = models.CharField(max_length=254)
    started_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=500, blank=True, default="", help_text="Empty where its time was up")
    figures = models.JSONField(default=dict, blank=True)
    counted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["registered_model"],
                condition=Q(ended_at__isnull=True),
                name="holdout_one_running_per_model",
            ),
            models.CheckConstraint(condition=Q(share__gt=0, share__lte=0.5), name="holdout_share_in_range"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("started_at")), name="holdout_ends_after_its_start"),
            models.CheckConstraint(condition=Q(salt__regex=r"^[0-9a-f]{32}$"), name="holdout_salt_is_128_bits"),
        ]

    def __str__(self) -> str:
        return f"{self.version} held out"
