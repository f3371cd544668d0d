"""What the auto-labeler of an agent has learnt, and the labels that it suggests."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from decisions.models.feedback import ONE_SUBJECT, Verdict
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Suggested(models.TextChoices):
    """What an auto-labeler suggests of an agent's decisions (`decisions.labelling.targets`)."""

    OPTION = "option", "The right option"
    FIRST = "first", "What belongs first"
    FIELDS = "fields", "Fields of the action"
    VERDICT = "verdict", "The verdict"


class AutoLabeler(WorkspaceOwned):
    """The newest training of an agent's auto-labeler; `reason` says why it suggests nothing, where it does not.

    Precision and coverage are of labels that it had not seen: of those above `threshold`, the share that is right, and
    how many they are of all. `accuracy` is that of its likeliest answers to all of them, `baseline` that of a guess
    without reading. `fields` tells the same of each field of a structured action. `about` says what of an action is not
    suggested, and why.
    """

    agent = models.OneToOneField(
        "decisions.Agent", primary_key=True, on_delete=models.CASCADE, related_name="auto_labeler"
    )
    suggests = models.CharField(
        max_length=8, choices=Suggested.choices, default=Suggested.OPTION, db_default=Suggested.OPTION
    )
    labels = models.PositiveIntegerField(default=0)
    actions = models.PositiveIntegerField(default=0)
    threshold = models.FloatField(null=True)
    precision = models.FloatField(null=True)
    coverage = models.FloatField(default=0.0)
    accuracy = models.FloatField(null=True)
    baseline = models.FloatField(null=True)
    fields = models.JSONField(default=list, db_default=[])
    suggested = models.PositiveIntegerField(default=0)
    looked_at = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=300, blank=True)
    about = models.CharField(max_length=300, blank=True, default="", db_default="")
    trained_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(coverage__gte=0, coverage__lte=1), name="auto_labeler_coverage_is_a_share"
            ),
            models.CheckConstraint(condition=Q(suggests__in=Suggested.values), name="auto_labeler_suggests_known"),
        ]

    def __str__(self) -> str:
        return f"auto-labeler of {self.agent}"


class LabelSuggestion(WorkspaceOwned):
    """What people would say of a decision or an episode, as the auto-labeler sees it. It is no label: only a dataset
    that asks for suggestions takes it.

    `action` is the right action, null where only a verdict or some fields of it are suggested. `verdict` is that of a
    label that agrees, empty where it would not follow. `fields` are those of a structured action, each with `field`,
    `value` and `confidence`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="+")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="suggestions",
    )
    episode = models.ForeignKey(
        "decisions.Episode", on_delete=models.CASCADE, db_index=False, null=True, related_name="+"
    )
    verdict = models.CharField(max_length=16, choices=Verdict.choices, blank=True, default="", db_default="")
    action = models.JSONField(null=True)
    fields = models.JSONField(default=list, db_default=[])
    confidence = models.FloatField()
    made_at = models.DateTimeField()

    class Meta:
        ordering = ["-confidence", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["decision"], name="label_suggestion_once"),
            models.UniqueConstraint(
                fields=["episode"], condition=Q(episode__isnull=False), name="label_suggestion_episode_once"
            ),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1), name="label_suggestion_confidence_in_range"
            ),
            models.CheckConstraint(condition=ONE_SUBJECT, name="label_suggestion_one_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.action or self.fields or self.verdict} for {self.decision_id or self.episode_id}"
