"""Feedback on decisions, and reviewers' labels."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

ONE_SUBJECT = Q(decision__isnull=False, episode__isnull=True) | Q(decision__isnull=True, episode__isnull=False)
"""Of what hangs on a decision or on an episode."""
MEASURED = "measured."
"""Metrics of what jobs of Reckoner's own measured, before the component's name."""


class FeedbackSource(models.TextChoices):
    HUMAN = "human", "A person"
    LLM = "llm", "A judge model"
    CODE = "code", "Code"
    SYSTEM = "system", "The system"


class Verdict(models.TextChoices):
    CONFIRMED = "confirmed", "Confirmed"
    CORRECTED = "corrected", "Corrected"
    OVERRIDDEN = "overridden", "Overridden"
    IGNORED = "ignored", "Ignored"


class Feedback(WorkspaceOwned):
    """Append-only (a trigger refuses UPDATE). Exactly one target; it may arrive before its decision, so the
    reference has no database constraint. Partitioned by decision; feedback on an episode or a unit lies in the
    default partition. `correction`: the right action, in the shape of the decision's own, which a verdict may name.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="feedback",
    )
    episode = models.ForeignKey("decisions.Episode", on_delete=models.CASCADE, null=True, related_name="feedback")
    unit = models.CharField(max_length=200, null=True)  # noqa: DJ001 - NULL: the target is not a unit
    metric = models.CharField(max_length=64)
    value = models.JSONField()
    correction = models.JSONField(null=True)
    source = models.CharField(max_length=8, choices=FeedbackSource.choices)
    observed_at = models.DateTimeField(help_text="The client's clock")
    recorded_at = models.DateTimeField(help_text="The server's clock")
    idempotency_key = models.CharField(max_length=200, null=True)  # noqa: DJ001
    supersedes = models.UUIDField(null=True)
    content_hash = models.BinaryField(max_length=32)

    class Meta:
        verbose_name_plural = "feedback"
        constraints = [
            models.CheckConstraint(
                condition=Q(decision__isnull=False, episode__isnull=True, unit__isnull=True)
                | Q(decision__isnull=True, episode__isnull=False, unit__isnull=True)
                | Q(decision__isnull=True, episode__isnull=True, unit__isnull=False),
                name="feedback_one_target",
            ),
            models.CheckConstraint(condition=Q(source__in=FeedbackSource.values), name="feedback_source_known"),
            models.CheckConstraint(
                condition=Q(correction__isnull=True) | Q(metric="verdict", decision__isnull=False),
                name="feedback_correction_of_a_verdict",
            ),
            models.UniqueConstraint(fields=["id", "decision"], nulls_distinct=False, name="feedback_once"),
            models.UniqueConstraint(
                fields=["workspace", "decision", "episode", "unit", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                nulls_distinct=False,
                name="feedback_idempotency_key_once",
            ),
        ]
        indexes = [
            models.Index(fields=["decision"], name="feedback_decision"),
            models.Index(fields=["workspace", "-id"], name="feedback_newest"),
            models.Index(fields=["recorded_at"], name="feedback_recorded"),
            models.Index(
                fields=["workspace", "decision"],
                condition=Q(metric="verdict", decision__isnull=False),
                name="feedback_verdict",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.metric} = {self.value}"


class Label(WorkspaceOwned):
    """A reviewer's judgement of a decision or of a whole episode. Writing one also writes the feedback that rewards
    read.

    `program` names the key that labelled, where no person did: `key:` and its prefix, or `internal`. A `pending` label
    counts for nothing: it waits in a queue for other reviewers' labels, or answers a gold item. `bulk` names what it
    was given with, where many decisions were labelled at once. `correction_sent` holds the fields that an app
    corrected, as it sent them; `corrected_action` is the action with them.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="labels",
    )
    episode = models.ForeignKey(
        "decisions.Episode", on_delete=models.CASCADE, db_index=False, null=True, related_name="labels"
    )
    reviewer = models.ForeignKey("workspaces.User", on_delete=models.SET_NULL, null=True, related_name="labels")
    program = models.CharField(max_length=64, blank=True)
    verdict = models.CharField(max_length=16, choices=Verdict.choices)
    corrected_action = models.JSONField(null=True, blank=True)
    correction_sent = models.JSONField(null=True, blank=True)
    score = models.FloatField(null=True, blank=True)
    note = models.TextField(blank=True)
    pending = models.BooleanField(default=False, db_default=False)
    bulk = models.ForeignKey(
        "decisions.BulkLabel", on_delete=models.SET_NULL, null=True, db_index=False, related_name="labels"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(verdict__in=Verdict.values), name="label_verdict_known"),
            models.CheckConstraint(condition=ONE_SUBJECT, name="label_one_subject"),
        ]
        indexes = [
            models.Index(fields=["decision"], name="label_decision"),
            models.Index(fields=["episode"], condition=Q(episode__isnull=False), name="label_episode"),
            models.Index(fields=["bulk"], condition=Q(bulk__isnull=False), name="label_bulk"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.labelled_by}"

    @property
    def labelled_by(self) -> str:
        """A person, a program, or "someone" whose account is gone."""
        return str(self.reviewer) if self.reviewer else self.program or "someone"


class Skip(WorkspaceOwned):
    """A reviewer passed over a decision while labelling: no verdict. Only their own queue leaves it out."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    decision = models.ForeignKey(
        "decisions.Decision", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="skips"
    )
    reviewer = models.ForeignKey("workspaces.User", on_delete=models.CASCADE, related_name="skips")
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["decision", "reviewer"], name="skip_once")]

    def __str__(self) -> str:
        return f"skipped by {self.reviewer}"
