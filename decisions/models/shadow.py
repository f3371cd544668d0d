"""Shadows: a candidate version is asked about logged decisions, beside the request path. Nothing here is a decision.

`training.shadows` writes these rows, and estimates from them what the candidate would earn (docs/shadow.md).
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class ShadowState(models.TextChoices):
    RUNNING = "running", "Running"
    CANARY = "canary", "Canary opened"
    STOPPED = "stopped", "Stopped"


class ShadowThen(models.TextChoices):
    """What happens when the evidence suffices."""

    TELL = "tell", "Say so"
    CANARY = "canary", "Open a canary"


class Shadow(WorkspaceOwned):
    """`version` is asked about a `share` of the agent's decisions that are recorded from `created_at` on.

    `answered` and `failed` count the answers so far, `cost` is what they cost, `read_until` says up to which time of
    arrival the ledger was read. `looks` is how often the evidence was judged (`training.shadows.rule`). Once it
    sufficed, `enough_at` says when and `enough_says` with which figures; `waits` says why a canary has not opened all
    the same. `job` is the newest round.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="shadows")
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="shadows")
    share = models.FloatField(default=1.0)
    min_decisions = models.PositiveIntegerField(default=500)
    then = models.CharField(max_length=8, choices=ShadowThen.choices, default=ShadowThen.TELL)
    reason = models.CharField(max_length=500)
    requested_by = models.CharField(max_length=254)
    state = models.CharField(max_length=8, choices=ShadowState.choices, default=ShadowState.RUNNING)
    answered = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=16, decimal_places=8, default=0)
    looks = models.PositiveSmallIntegerField(default=0)
    read_until = models.DateTimeField(null=True)
    enough_at = models.DateTimeField(null=True)
    enough_says = models.TextField(blank=True)
    waits = models.CharField(max_length=500, blank=True)
    experiment = models.OneToOneField(
        "models_registry.Experiment", on_delete=models.CASCADE, null=True, related_name="shadow"
    )
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="shadow")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "version"], condition=Q(state="running"), name="shadow_running_once_per_version"
            ),
            models.CheckConstraint(
                condition=Q(share__gt=0, share__lte=1, min_decisions__gte=1), name="shadow_ranges_make_sense"
            ),
            models.CheckConstraint(
                condition=Q(state__in=ShadowState.values, then__in=ShadowThen.values), name="shadow_choices_known"
            ),
            models.CheckConstraint(
                condition=Q(state="running", ended_at__isnull=True) | ~Q(state="running") & Q(ended_at__isnull=False),
                name="shadow_ended_exactly_when_over",
            ),
            models.CheckConstraint(
                condition=Q(state="canary", experiment__isnull=False, enough_at__isnull=False, then="canary")
                | ~Q(state="canary") & Q(experiment__isnull=True),
                name="shadow_canary_has_its_experiment",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} in the shadow of {self.agent.slug}"


class ShadowAnswer(WorkspaceOwned):
    """What the candidate thought of one decision, or why it could not answer.

    Of a choice or a ranking, `probabilities` are its own, one for each option in their order, of a ranking for the
    first place; `place` is that of the logged action among them, of a ranking of its first item, and `places` are those
    of all its items. What is written has none of these. `pick`: what the candidate would do. `agrees`: whether that is
    what was done, of a ranking whether the same item is first; `tau`: Kendall's τ of a ranking.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    shadow = models.ForeignKey(Shadow, on_delete=models.CASCADE, db_index=False, related_name="answers")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="shadow_answers",
    )
    probabilities = models.JSONField(null=True)
    place = models.PositiveSmallIntegerField(null=True)
    places = models.JSONField(null=True)
    tau = models.FloatField(null=True)
    pick = models.JSONField(null=True)
    agrees = models.BooleanField(null=True)
    error = models.CharField(max_length=500, blank=True)
    answered_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["shadow", "decision"], name="shadow_answer_once"),
            models.CheckConstraint(
                condition=Q(error="", pick__isnull=False, agrees__isnull=False)
                | ~Q(error="") & Q(probabilities__isnull=True, pick__isnull=True, agrees__isnull=True),
                name="shadow_answer_or_error",
            ),
            models.CheckConstraint(
                condition=Q(probabilities__isnull=False, place__isnull=False)
                | Q(probabilities__isnull=True, place__isnull=True, places__isnull=True),
                name="shadow_answer_places_where_options",
            ),
            models.CheckConstraint(
                condition=Q(places__isnull=True, tau__isnull=True)
                | Q(places__isnull=False, tau__isnull=False, tau__gte=-1, tau__lte=1),
                name="shadow_answer_tau_of_rankings",
            ),
        ]
        indexes = [
            models.Index(fields=["shadow", "-id"], name="shadow_answer_newest"),
            models.Index(fields=["decision"], name="shadow_answer_decision"),
        ]

    def __str__(self) -> str:
        return f"{self.shadow_id} about {self.decision_id}"


class ShadowPoint(WorkspaceOwned):
    """The figures of one moment, over the newest answers (`training.shadows.figures`); null where they are not known.

    `agreement` with its 95 % interval, and of rankings `tau`, the mean of Kendall's τ; `estimate` is the difference
    candidate − log in units of reward with its 95 % interval, over the `rewarded` of them; `refusals` say why the log
    cannot answer, or why there is no estimate. `look` is the number of the judgement that was made here; null where
    none was.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    shadow = models.ForeignKey(Shadow, on_delete=models.CASCADE, related_name="points")
    at = models.DateTimeField()
    answered = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    agreement = models.FloatField(null=True)
    agreement_low = models.FloatField(null=True)
    agreement_high = models.FloatField(null=True)
    tau = models.FloatField(null=True)
    rewarded = models.PositiveIntegerField(default=0)
    estimate = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    lower = models.FloatField(null=True)
    logged = models.FloatField(null=True)
    effective_sample_size = models.FloatField(null=True)
    refusals = models.JSONField(default=list)
    passed = models.BooleanField(default=False)
    look = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(passed=False) | Q(refusals=[], look__isnull=False), name="shadow_point_refuses_or_passes"
            ),
            models.CheckConstraint(condition=Q(tau__gte=-1, tau__lte=1), name="shadow_point_tau_in_range"),
        ]

    def __str__(self) -> str:
        return f"{self.shadow_id} at {self.at:%Y-%m-%d %H:%M}"
