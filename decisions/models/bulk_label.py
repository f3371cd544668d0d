"""One verdict given to many decisions at once."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from decisions.models.feedback import Verdict
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class BulkLabel(WorkspaceOwned):
    """What a reviewer said of all decisions of a filter, or of some that they chose. Each of its labels names it.

    `matching` decisions were asked about, and `chosen` of them were to get a label: the others have a person's label,
    or the correction does not fit them. `decisions` are those that were chosen, until all are `done`; `labelled` counts
    the labels that were given. A small one is done at once and has no `job`; undoing a large one has a job of its own.
    `filters` are without the words that were searched for, which may name a person.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    reviewer = models.ForeignKey("workspaces.User", on_delete=models.SET_NULL, null=True, related_name="+")
    program = models.CharField(max_length=64, blank=True)
    verdict = models.CharField(max_length=16, choices=Verdict.choices)
    corrected_action = models.JSONField(null=True)
    filters = models.JSONField(default=dict, blank=True)
    replaces = models.BooleanField(default=False, help_text="Decisions with a person's label are labelled, too")
    matching = models.PositiveIntegerField()
    chosen = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    labelled = models.PositiveIntegerField(default=0)
    decisions = ArrayField(models.UUIDField(), default=list, blank=True)
    job = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    undone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(verdict__in=Verdict.values), name="bulk_label_verdict_known"),
            models.CheckConstraint(
                condition=Q(chosen__lte=F("matching"), done__lte=F("chosen"), labelled__lte=F("done")),
                name="bulk_label_counts_in_order",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.chosen} decisions {self.verdict}"

    @property
    def labelled_by(self) -> str:
        """A person, a program, or "someone" whose account is gone."""
        return str(self.reviewer) if self.reviewer else self.program or "someone"

    @property
    def under_way(self) -> bool:
        return self.job is not None and not self.job.is_terminal

    @property
    def state(self) -> str:
        """`queued`, `running` and `stopping` are its job's, of labelling or of undoing; then `undone`, `stopped` (it
        was cancelled or failed, and what is labelled stays) or `done`."""
        if self.job is not None and not self.job.is_terminal:
            return "stopping" if self.job.cancel_requested else str(self.job.state)
        if self.undone_at is not None:
            return "undone"
        return "stopped" if self.done < self.chosen else "done"
