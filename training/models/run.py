"""Runs, their events and their metrics."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from training.run_states import TERMINAL_STATES, RunState
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

TERMINAL_VALUES = sorted(state.value for state in TERMINAL_STATES)
RUN_STATE_CHOICES = [(state.value, state.value.replace("_", " ").capitalize()) for state in RunState]


class TrainingRun(WorkspaceOwned):
    """Offline work that makes one model version. Moves by the table in `training.run_states` only."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="runs")
    method = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=RUN_STATE_CHOICES, default=RunState.QUEUED.value)
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="training_run")
    dataset = models.ForeignKey("training.DatasetSnapshot", on_delete=models.PROTECT, related_name="runs")
    replay = models.ForeignKey("training.DatasetSnapshot", on_delete=models.PROTECT, null=True, related_name="+")
    heldout = models.ForeignKey("training.DatasetSnapshot", on_delete=models.PROTECT, null=True, related_name="+")
    base_version = models.ForeignKey(
        "models_registry.ModelVersion", on_delete=models.PROTECT, null=True, related_name="runs_from"
    )
    base_model = models.CharField(
        max_length=300,
        blank=True,
        help_text="Folder or hub id that was named as the base; base_version is what it became once the run began",
    )
    produced_version = models.OneToOneField(
        "models_registry.ModelVersion", on_delete=models.PROTECT, null=True, related_name="produced_by"
    )
    spec = models.JSONField(help_text="The engine's run spec without its paths")
    estimate = models.JSONField(
        default=dict,
        help_text="What it was expected to need (training.runs.estimates); empty of a base of unknown size",
    )
    progress = models.FloatField(default=0.0)
    message = models.CharField(max_length=500, blank=True)
    metrics = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    notes = models.TextField(blank=True, max_length=5000)
    requested_by = models.CharField(max_length=254)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in RunState]), name="run_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=TERMINAL_VALUES, finished_at__isnull=False)
                | (~Q(state__in=TERMINAL_VALUES) & Q(finished_at__isnull=True)),
                name="run_finished_at_exactly_when_terminal",
            ),
            models.CheckConstraint(
                condition=Q(state=RunState.SUCCEEDED.value, produced_version__isnull=False)
                | (~Q(state=RunState.SUCCEEDED.value) & Q(produced_version__isnull=True)),
                name="run_version_exactly_when_succeeded",
            ),
            models.CheckConstraint(condition=Q(base_version__isnull=False) | ~Q(base_model=""), name="run_has_a_base"),
            models.CheckConstraint(condition=Q(progress__gte=0, progress__lte=1), name="run_progress_is_a_share"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """As pages call it: Filer posterior, 22 Nov 14:05:09. The agent is read: lists select it with the run."""
        made = timezone.localtime(self.created_at)
        day = "%-d %b" if made.year == timezone.localdate().year else "%-d %b %Y"
        return f"{self.agent.name} {self.method}, {made.strftime(f'{day} %H:%M:%S')}"

    @property
    def is_terminal(self) -> bool:
        return RunState(self.state) in TERMINAL_STATES


class RunEvent(models.Model):
    """One line of an attempt's events.jsonl, or a change of the run's state (attempt 0)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="events")
    attempt = models.PositiveIntegerField()
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=32)
    details = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "sequence"], name="run_event_once")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}"


class RunMetric(models.Model):
    """One value of one curve; the live chart reads these."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="run_metrics")
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    name = models.CharField(max_length=64)
    value = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "name", "step"], name="run_metric_once")]

    def __str__(self) -> str:
        return f"{self.name}[{self.step}] = {self.value}"
