"""What the classifier behind `trace.learned` has learnt of an agent."""

from __future__ import annotations

from django.db import models

from workspaces.models import WorkspaceOwned


class TraceClassifier(WorkspaceOwned):
    """The newest training of an agent's classifier; `reason` says why it scores nothing, where it does not.

    Nothing else of it is kept: fitted again on the labels as they were at `trained_at` it is the same. `version` goes
    up with each training, and stands in every measurement. `right`, `wrong`: traces that it learnt from.
    """

    agent = models.OneToOneField(
        "decisions.Agent", primary_key=True, on_delete=models.CASCADE, related_name="trace_classifier"
    )
    version = models.PositiveIntegerField()
    right = models.PositiveIntegerField(default=0)
    wrong = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=300, blank=True)
    trained_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"trace classifier {self.version} of {self.agent}"
