"""The log of an experiment: what was known at a look, and what was done about it, by the rule or by a person."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from models_registry.models.experiment import Experiment
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class LookAction(models.TextChoices):
    """What was done. The rule continues, promotes, rolls back, gives up what is futile, opens a phase, and supersedes
    the others of a group when one is promoted; somebody does the rest."""

    START = "start", "Started"
    CONTINUE = "continue", "Look"
    PROMOTE = "promote", "Promoted"
    ROLL_BACK = "roll_back", "Rolled back"
    SUPERSEDE = "supersede", "Superseded"
    GIVE_UP = "give_up", "Stopped for futility"
    OPEN_PHASE = "open_phase", "Next phase"
    CHANGE_SHARE = "change_share", "Share changed"
    STOP = "stop", "Stopped"
    PROMOTE_BY_HAND = "promote_by_hand", "Promoted by hand"


BY_SOMEBODY = (LookAction.START, LookAction.CHANGE_SHARE, LookAction.STOP, LookAction.PROMOTE_BY_HAND)


class Look(WorkspaceOwned):
    """One row of an experiment's log, never changed (`models_registry.experiments.log`).

    The figures are the experiment's own at that moment: e-values as natural logarithms, the difference in the outcome's
    own units, `guardrails` as in `Experiment.guardrail_evidence`. `reasons`: sentences with numbers; of a person, the
    reason that was given. `by`: who did it; empty for the rule.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, db_index=False, related_name="looks")
    at = models.DateTimeField(default=timezone.now)
    action = models.CharField(max_length=16, choices=LookAction.choices)
    by = models.CharField(max_length=254, blank=True, default="", help_text="Empty for the rule")
    reasons = models.JSONField(default=list)
    phase = models.PositiveIntegerField(help_text="Number of the phase that runs from then on")
    treatment_share = models.FloatField()
    units_control = models.PositiveIntegerField(default=0)
    units_treatment = models.PositiveIntegerField(default=0)
    log_e_plus = models.FloatField(default=0.0)
    log_e_minus = models.FloatField(default=0.0)
    estimate = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    plain_log_e_plus = models.FloatField(default=0.0)
    plain_log_e_minus = models.FloatField(default=0.0)
    plain_estimate = models.FloatField(null=True)
    plain_low = models.FloatField(null=True)
    plain_high = models.FloatField(null=True)
    guardrails = models.JSONField(default=dict)
    sample_ratio_mismatch = models.BooleanField(default=False)
    requests_control = models.PositiveIntegerField(default=0)
    failed_control = models.PositiveIntegerField(default=0)
    requests_treatment = models.PositiveIntegerField(default=0)
    failed_treatment = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["experiment", "-id"], name="look_newest")]
        constraints = [
            models.CheckConstraint(condition=Q(action__in=LookAction.values), name="look_action_known"),
            models.CheckConstraint(
                condition=Q(action__in=BY_SOMEBODY) & ~Q(by="") | ~Q(action__in=BY_SOMEBODY) & Q(by=""),
                name="look_of_somebody_says_who",
            ),
            models.CheckConstraint(condition=~Q(reasons=[]), name="look_has_reasons"),
        ]

    def __str__(self) -> str:
        return f"{self.experiment}: {self.get_action_display()}"
