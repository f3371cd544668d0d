"""Items that decisions are about, their projects, and their changes of status, as the owning app reports them.

The app's ids are strings (`ref`) in decisions too: a decision may arrive before its item.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from decisions.models.feedback import Verdict
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class ItemOutcome(models.TextChoices):
    """The two ends of an item that say what its decisions were worth."""

    DONE = "DONE", "Done"
    COLD_STORAGE = "COLD_STORAGE", "Put away"


class Project(WorkspaceOwned):
    """What the notes app calls an opus."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    ref = models.CharField(max_length=200)
    name = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "ref"], name="project_once")]

    def __str__(self) -> str:
        return self.name or self.ref


class Item(WorkspaceOwned):
    """An item as its newest change of status left it. `cycles` counts how often it was opened again after an end."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    ref = models.CharField(max_length=200)
    title = models.CharField(max_length=500, blank=True)
    status = models.CharField(max_length=32, blank=True)
    swimlane = models.CharField(max_length=32, blank=True)
    priority = models.CharField(max_length=32, blank=True)
    labels = models.JSONField(default=list)
    project_ref = models.CharField(max_length=200, blank=True)
    cycles = models.PositiveIntegerField(default=0)
    blocked = models.BooleanField(default=False)
    changed_at = models.DateTimeField(null=True, help_text="The client's clock, of the newest change")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "ref"], name="item_once")]

    def __str__(self) -> str:
        return self.title or self.ref


class StatusChange(WorkspaceOwned):
    """An item went from one status to another, and what somebody said of that.

    `outcome` is set where the change ends the item; its other fields then become feedback on all decisions of the
    item, and `applied_at` says when. It is null again once a decision of the item arrives later.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="changes")
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - NULL: the app named none
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="status_changes",
    )
    from_status = models.CharField(max_length=32, blank=True)
    to_status = models.CharField(max_length=32)
    outcome = models.CharField(max_length=16, choices=ItemOutcome.choices, blank=True)
    cycles = models.PositiveIntegerField(default=0)
    blocked = models.BooleanField(default=False)
    abandoned = models.BooleanField(default=False)
    time_ratio = models.FloatField(null=True, help_text="Minutes spent over minutes expected")
    alignment = models.FloatField(null=True, help_text="With the project's goals, 0 to 1")
    verdict = models.CharField(max_length=16, choices=Verdict.choices, blank=True)
    correction = models.JSONField(null=True, blank=True)
    verdict_at = models.DateTimeField(null=True)
    applied_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(help_text="The client's clock")
    recorded_at = models.DateTimeField(help_text="The server's clock")
    content_hash = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "external_id"],
                condition=Q(external_id__isnull=False),
                name="status_change_external_id_once",
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=["", *ItemOutcome.values]), name="status_change_outcome_known"
            ),
            models.CheckConstraint(condition=Q(verdict__in=["", *Verdict.values]), name="status_change_verdict_known"),
            models.CheckConstraint(
                condition=Q(verdict="", verdict_at__isnull=True) | (~Q(verdict="") & Q(verdict_at__isnull=False)),
                name="status_change_verdict_when",
            ),
            models.CheckConstraint(
                condition=(Q(alignment__isnull=True) | Q(alignment__gte=0, alignment__lte=1))
                & (Q(time_ratio__isnull=True) | Q(time_ratio__gte=0)),
                name="status_change_measures_in_range",
            ),
        ]
        indexes = [
            # Changes whose outcome has not reached their decisions; and the latest, whose decisions may have been under
            # way.
            models.Index(
                fields=["workspace"], condition=~Q(outcome="") & Q(applied_at__isnull=True), name="change_unapplied"
            ),
            models.Index(fields=["applied_at"], condition=Q(applied_at__isnull=False), name="change_applied"),
            # Erased together with its decision.
            models.Index(fields=["decision"], condition=Q(decision__isnull=False), name="change_decision"),
        ]

    def __str__(self) -> str:
        return f"{self.item}: {self.from_status or 'new'} → {self.to_status}"
