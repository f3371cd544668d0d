"""What the auto-labeler of an agent has learnt, and the labels that it suggests."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class AutoLabeler(WorkspaceOwned):
    """The newest training of an agent's auto-labeler; `reason` says why it suggests nothing, where it does not.

    Precision and coverage are of labels that it had not seen: of those above `threshold`, the share that is right, and
    how many they are of all.
    """

    agent = models.OneToOneField(
        "decisions.Agent", primary_key=True, on_delete=models.CASCADE, related_name="auto_labeler"
    )
    labels = models.PositiveIntegerField(default=0)
    actions = models.PositiveIntegerField(default=0)
    threshold = models.FloatField(null=True)
    precision = models.FloatField(null=True)
    coverage = models.FloatField(default=0.0)
    suggested = models.PositiveIntegerField(default=0)
    looked_at = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=300, blank=True)
    trained_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(coverage__gte=0, coverage__lte=1), name="auto_labeler_coverage_is_a_share"
            ),
        ]

    def __str__(self) -> str:
        return f"auto-labeler of {self.agent}"


class LabelSuggestion(WorkspaceOwned):
    """The right action of a decision, as the auto-labeler sees it. It is no label: only a dataset that asks
    for suggestions takes it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="+")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="suggestions",
    )
    action = models.JSONField()
    confidence = models.FloatField()
    made_at = models.DateTimeField()

    class Meta:
        ordering = ["-confidence", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["decision"], name="label_suggestion_once"),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1), name="label_suggestion_confidence_in_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} for {self.decision_id}"
