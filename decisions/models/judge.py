"""What was known of a judge when it was last measured against people."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class JudgeSource(models.TextChoices):
    """The sources of feedback that stand in for people."""

    LLM = "llm", "A judge model"
    CODE = "code", "Code"


class JudgeVerdict(models.TextChoices):
    CALIBRATED = "calibrated", "Calibrated"
    REFUSED = "refused", "Refused"
    DRIFTED = "drifted", "Drifted"


class JudgeCalibration(WorkspaceOwned):
    """One measurement of a judge: the feedback of `metric` from `source` on the decisions of `agent`, beside people's
    feedback of `people_metric`. Rows are only added; the newest of a judge counts.

    Measured were scores that arrived after `since`, up to `until`. `scores`: how many decisions have one, `labels`: how
    many of these people have judged, too. `assessment` is a `decisions.judges.assessing.Assessment`, null where there
    are too few labels for a number; `drift` a `decisions.judges.drift.Drift` against the calibration before, null where
    none could be compared. `reasons`: why it is not calibrated; `warnings`: biases of one that may be.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(
        "decisions.Agent", on_delete=models.CASCADE, db_index=False, related_name="judge_calibrations"
    )
    metric = models.CharField(max_length=64)
    source = models.CharField(max_length=8, choices=JudgeSource.choices)
    people_metric = models.CharField(max_length=64)
    verdict = models.CharField(max_length=16, choices=JudgeVerdict.choices)
    since = models.DateTimeField()
    until = models.DateTimeField()
    scores = models.PositiveIntegerField()
    labels = models.PositiveIntegerField()
    assessment = models.JSONField(null=True)
    drift = models.JSONField(null=True)
    reasons = models.JSONField(default=list)
    warnings = models.JSONField(default=list)
    made_by = models.CharField(max_length=254)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(source__in=JudgeSource.values, verdict__in=JudgeVerdict.values),
                name="judge_calibration_choices_known",
            ),
            models.CheckConstraint(
                condition=~Q(verdict="calibrated") | Q(assessment__isnull=False), name="judge_calibrated_by_numbers"
            ),
            models.CheckConstraint(
                condition=Q(labels__lte=models.F("scores"), since__lte=models.F("until")),
                name="judge_calibration_ranges",
            ),
        ]
        indexes = [models.Index(fields=["agent", "metric", "source", "-id"], name="judge_calibration_newest")]

    def __str__(self) -> str:
        return f"{self.metric} by {self.source}: {self.verdict}"
