"""A version's scores against its base on held-out inputs, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

DOMAINS = "domains"
"""Under this name scores and differences on tasks hold {domain: interval of solved tasks}."""


class Evaluation(WorkspaceOwned):
    """Every score is {mean, low, high, n, clusters}, 95 %, clustered by the rows' group where they have one.

    `rows` were answered. Left out are held-out decisions whose right action nobody knows: `unanswered` of them were
    wrong and do not name it, so that the gate does not judge, and `without_feedback` have no feedback.

    Of tasks `accuracy` is the share that was solved as the version serves, with its exploration, `greedy_success` the
    share that was solved by the likeliest actions, and `score` how much of a task was done; `domains` holds {domain:
    interval} of the first.

    `plain`: what a classifier of words taught from the same feedback reaches on the same rows, and the trained model
    less that; null where rows have no options to choose among.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.OneToOneField("training.TrainingRun", on_delete=models.CASCADE, related_name="evaluation")
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="evaluations")
    against = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, null=True, related_name="+")
    dataset = models.ForeignKey("training.DatasetSnapshot", on_delete=models.PROTECT, related_name="evaluations")
    rows = models.PositiveIntegerField()
    unanswered = models.PositiveIntegerField(default=0, db_default=0)
    without_feedback = models.PositiveIntegerField(default=0, db_default=0)
    scores = models.JSONField(help_text="{base|trained: {accuracy, reward, valid_share: interval}}")
    differences = models.JSONField(help_text="{accuracy, reward: interval of trained − base, paired}")
    plain = models.JSONField(
        null=True,
        blank=True,
        help_text="Words on the same feedback: training.evaluation.plain_baseline.compare_with_words",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.version} on {self.rows} held-out rows"

    @property
    def named_scores(self) -> dict[str, dict[str, Any]]:
        """`scores`; of tasks with `serving_success` beside `accuracy`, which is the same."""
        return {model: _name_policies(scores) for model, scores in self.scores.items()}

    @property
    def named_differences(self) -> dict[str, Any]:
        """As `named_scores`."""
        return _name_policies(self.differences)


def _name_policies(scores: Mapping[str, Any]) -> dict[str, Any]:
    of_tasks = DOMAINS in scores and "accuracy" in scores
    return {**scores, **({"serving_success": scores["accuracy"]} if of_tasks else {})}
