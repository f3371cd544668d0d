"""Jobs as rows. PostgreSQL holds all there is to know about a job; a broker message only says that one is due."""

from __future__ import annotations

from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone

from workspaces.models import WorkspaceQuerySet
from workspaces.storage.ids import uuid7


class JobState(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    DEAD = "dead", "Dead"
    CANCELLED = "cancelled", "Cancelled"


TERMINAL = (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED)


class Job(models.Model):
    """One piece of work with an effect that happens once.

    `fence` grows with every claim; a write that carries an older fence loses. `lease_until` is by the database's
    clock. `dedupe_key` makes (kind, key) unique among jobs that are not dead: two beats make one job a day, and
    whoever asks after it died makes another.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=64)
    queue = models.CharField(max_length=32, default="default")
    dedupe_key = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001 - NULL means "never the same"
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    fence = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    run_after = models.DateTimeField(default=timezone.now)
    progress = models.FloatField(default=0.0)
    message = models.CharField(max_length=500, blank=True)
    result = models.JSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    cancel_requested = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=TERMINAL, finished_at__isnull=False)
                | (~Q(state__in=TERMINAL) & Q(finished_at__isnull=True)),
                name="job_finished_at_exactly_when_terminal",
            ),
            models.CheckConstraint(
                condition=Q(state=JobState.RUNNING, lease_until__isnull=False)
                | (~Q(state=JobState.RUNNING) & Q(lease_until__isnull=True)),
                name="job_leased_exactly_when_running",
            ),
            models.CheckConstraint(condition=Q(progress__gte=0, progress__lte=1), name="job_progress_is_a_share"),
            models.CheckConstraint(
                condition=Q(attempts__lte=models.F("max_attempts")), name="job_attempts_within_bounds"
            ),
            models.UniqueConstraint(
                fields=["kind", "dedupe_key"],
                condition=Q(dedupe_key__isnull=False) & ~Q(state=JobState.DEAD),
                name="job_once_per_key",
            ),
        ]
        indexes = [
            models.Index(fields=["run_after"], condition=Q(state=JobState.QUEUED), name="job_due"),
            models.Index(fields=["lease_until"], condition=Q(state=JobState.RUNNING), name="job_leased"),
            HashIndex(fields=["kind"], name="job_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} ({self.state})"

    @property
    def title(self) -> str:
        """The kind as people read it: decisions.calculate_rewards → Calculate rewards."""
        return self.kind.rpartition(".")[2].replace("_", " ").capitalize()

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


class Outbox(models.Model):
    """A hint to be sent: written with the change it speaks of, sent on commit, re-sent by the sweeper."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="outbox")
    sent_at = models.DateTimeField(null=True, blank=True)
    sends = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "outbox"

    def __str__(self) -> str:
        return f"hint for {self.job_id}, sent {self.sends}×"
