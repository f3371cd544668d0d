"""Steps of episodes and decisions: tool calls, model calls, reasoning, spans."""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class StepKind(models.TextChoices):
    TOOL_CALL = "tool_call", "Tool call"
    LLM_CALL = "llm_call", "Model call"
    REASONING = "reasoning", "Reasoning"
    SPAN = "span", "Span"


class Step(WorkspaceOwned):
    """Belongs to an episode, to a decision, or to both; either may arrive later than the step.

    Partitioned by RANGE of its own uuid7 id, since it may have no decision (docs/adr/0007). `parent` is the
    `external_id` of the step that it lies in: a sender knows that name long before it sends the other step. A failure
    has `success` false; a step of which nobody said how it ended has null.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # As for decisions: only the indexes that queries use, since ingest pays for each.
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    episode = models.ForeignKey(
        "decisions.Episode", on_delete=models.PROTECT, null=True, blank=True, db_index=False, related_name="steps"
    )
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        blank=True,
        related_name="steps",
    )
    number = models.PositiveIntegerField(null=True, blank=True, help_text="Order among steps that began together")
    kind = models.CharField(max_length=16, choices=StepKind.choices)
    name = models.CharField(max_length=200, blank=True)
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - NULL: it has no name
    parent = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    arguments = models.JSONField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    success = models.BooleanField(null=True, blank=True)
    error = models.TextField(blank=True)
    reasoning_type = models.CharField(max_length=64, blank=True)
    content = models.TextField(blank=True, help_text="The reasoning's text")
    confidence = models.FloatField(null=True, blank=True)
    insights = models.JSONField(null=True, blank=True)
    issues = models.JSONField(null=True, blank=True)
    model = models.CharField(max_length=200, blank=True, help_text="The model that was called")
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    started_at = models.DateTimeField(help_text="The client's clock")
    duration_ms = models.FloatField(null=True, blank=True)
    attributes = models.JSONField(null=True, blank=True, help_text="What else the sender said")
    recorded_at = models.DateTimeField(help_text="The server's clock")
    content_hash = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=StepKind.values), name="step_kind_known"),
            models.CheckConstraint(
                condition=Q(decision__isnull=False) | Q(episode__isnull=False), name="step_belongs_somewhere"
            ),
            models.CheckConstraint(
                condition=Q(confidence__isnull=True) | Q(confidence__gte=0, confidence__lte=1),
                name="step_confidence_in_range",
            ),
            models.CheckConstraint(
                condition=Q(duration_ms__isnull=True) | Q(duration_ms__gte=0), name="step_duration_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(error="") | Q(success=False, success__isnull=False), name="step_error_means_failure"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="step_newest"),
            models.Index(fields=["episode", "id"], condition=Q(episode__isnull=False), name="step_episode"),
            models.Index(fields=["decision", "id"], condition=Q(decision__isnull=False), name="step_decision"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name or self.id}"

    @property
    def place(self) -> tuple[dt.datetime, float, int, uuid.UUID]:
        """In the order of an episode: by start; of those that began together, what took longer holds the others."""
        number = -1 if self.number is None else self.number
        return self.started_at, -(self.duration_ms or 0.0), number, self.id
