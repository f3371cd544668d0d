"""Fixed suites that every new version of an agent is scored on, and the scores (docs/learning.md)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from training.engine.spec.methods import RowKind
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class EvaluationSuite(WorkspaceOwned):
    """The rows of a labelled dataset, or the right ones of a dataset of texts, and what an action on them is worth;
    never changed once it is there. `left_out`: texts of the dataset that are not known to be right.

    `scorer` is {right, wrong}, what the agent's reward spec gave to either when the suite was made, or {components}: a
    reward function of the action (training.engine.spec.reward_function). `slice_by` is a field of the rows, "" for
    none.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="suites")
    name = models.CharField(max_length=200)
    dataset = models.ForeignKey("training.DatasetSnapshot", on_delete=models.PROTECT, related_name="suites")
    slice_by = models.CharField(max_length=63, blank=True)
    scorer = models.JSONField()
    left_out = models.PositiveIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "name"], name="suite_name_once_per_agent"),
            models.CheckConstraint(condition=~Q(name=""), name="suite_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def rows(self) -> int:
        """Those that a version answers."""
        return self.dataset.rows - self.left_out

    @property
    def is_of_texts(self) -> bool:
        """Versions write their answers, rather than choose them."""
        return self.dataset.row_kind is RowKind.TEXT


class SuiteScore(WorkspaceOwned):
    """What one version reached on one suite: both are frozen, so there is one score.

    `answers` holds answers.jsonl, a line for each row, from which two versions are compared. `learnt`: the version or
    one that it came from learnt from rows of the suite, so the score flatters it. `differences` to `against`, the
    version that training started from, are paired.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    suite = models.ForeignKey(EvaluationSuite, on_delete=models.CASCADE, related_name="scores")
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="suite_scores")
    run = models.ForeignKey("training.TrainingRun", on_delete=models.SET_NULL, null=True, related_name="suite_scores")
    answers = models.ForeignKey("models_registry.Artifact", on_delete=models.PROTECT, related_name="+")
    rows = models.PositiveIntegerField()
    scores = models.JSONField(help_text="training.evaluation.suites.scoring.summarise")
    learnt = models.BooleanField(default=False)
    against = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, null=True, related_name="+")
    differences = models.JSONField(default=dict, help_text="training.evaluation.suites.scoring.compare")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["suite", "version"], name="suite_scored_once_per_version")]

    def __str__(self) -> str:
        return f"{self.version} on {self.suite}"
