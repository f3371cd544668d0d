"""Reward specs and rewards: one row for each decision, spec and version."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from workspaces.ids import uuid7
from workspaces.models import WorkspaceOwned


class RewardSpec(WorkspaceOwned):
    """Immutable. `components` is a list of {name, weight, parameters}; `spec_hash` is SHA-256 over its content."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="reward_specs")
    number = models.PositiveIntegerField()
    components = models.JSONField()
    clamp = models.FloatField(default=5.0)
    low = models.FloatField(default=-2.0)
    high = models.FloatField(default=2.0)
    spec_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="reward_spec_number_once"),
            models.CheckConstraint(condition=Q(low__lt=F("high"), clamp__gt=0), name="reward_spec_range_makes_sense"),
        ]

    def __str__(self) -> str:
        return f"rewards v{self.number} of {self.agent.slug}"


class Reward(WorkspaceOwned):
    """`value` in [0, 1], or null where a component failed or nothing is known.

    `components` maps a name to {"value": x} or {"error": why}. A failure is never the number 0. Late feedback makes
    `version` n + 1; earlier rows stay, because an experiment or a dataset may have read them. Partitioned by decision;
    the primary key in the database is (decision, spec, version).
    """

    pk = models.CompositePrimaryKey("decision_id", "spec_id", "version")
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    decision = models.ForeignKey(
        "decisions.Decision", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="rewards"
    )
    spec = models.ForeignKey(RewardSpec, on_delete=models.PROTECT, db_index=False, related_name="rewards")
    version = models.PositiveIntegerField()
    value = models.FloatField(null=True)
    raw = models.FloatField(null=True)
    components = models.JSONField()
    feedback_until = models.DateTimeField(help_text="recorded_at of the newest feedback that was read")
    computed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(value__isnull=True) | Q(value__gte=0, value__lte=1), name="reward_value_in_range"
            ),
            models.CheckConstraint(condition=Q(version__gte=1), name="reward_versions_from_one"),
        ]
        # The watermark of the next calculation is the newest feedback that the spec has read.
        indexes = [
            models.Index(fields=["spec", "-feedback_until"], name="reward_watermark"),
            models.Index(fields=["spec", "raw"], include=["decision"], name="reward_raw"),
        ]

    def __str__(self) -> str:
        return f"{self.value} for {self.decision_id}"
