"""Online A/B tests: exposures of units to variants, and their outcomes, each unit once (docs/experiments.md)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from models_registry.models.holdout_bounds import HOLDOUT_SECONDS
from models_registry.statistics.ramp import RAMP_E, RAMP_UNITS
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class ExperimentState(models.TextChoices):
    RUNNING = "running", "Running"
    PROMOTED = "promoted", "Promoted"
    ROLLED_BACK = "rolled_back", "Rolled back"
    STOPPED = "stopped", "Stopped"
    SUPERSEDED = "superseded", "Superseded"
    FUTILE = "futile", "Stopped for futility"


class Arm(models.TextChoices):
    CONTROL = "control", "Control"
    TREATMENT = "treatment", "Treatment"


class MissingPolicy(models.TextChoices):
    EXCLUDE = "exclude", "Leave out units without a reward"
    ZERO = "zero", "Count units without a reward as 0"


class GuardrailMeasure(models.TextChoices):
    """What a guardrail watches, of one unit, in [0, 1], higher is worse."""

    ERROR_RATE = "error_rate", "Error rate"
    LATENCY = "latency", "Latency over budget"
    MISSING_FEEDBACK = "missing_feedback", "Units without a reward"
    COST = "cost", "Cost over budget"
    INVALID_ANSWERS = "invalid_answers", "Invalid answers"


class ExperimentGroup(WorkspaceOwned):
    """Experiments of several versions against one champion at the same time (docs/adr/0038).

    Each has a lane: an equal part of the units to itself, cut by a hash with `salt` (128 bits of hexadecimal).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(
        "models_registry.RegisteredModel", on_delete=models.CASCADE, related_name="experiment_groups"
    )
    name = models.CharField(max_length=200)
    salt = models.CharField(max_length=32)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["registered_model"],
                condition=Q(ended_at__isnull=True),
                name="experiment_group_one_running_per_model",
            ),
            models.CheckConstraint(
                condition=Q(salt__regex=r"^[0-9a-f]{32}$"), name="experiment_group_salt_is_128_bits"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Experiment(WorkspaceOwned):
    """Challenger against champion of one registered model. Every bound of the decision rule is a field.

    E-values are stored as natural logarithms. `salt` is 128 bits of hexadecimal, fresh for each experiment.
    `guardrails` is a list of {"measure", "margin", for latency "budget_ms", for cost "budget_cost"};
    `guardrail_evidence` holds by measure {"log_e_non_inferior", "log_e_harm", "estimate", "units"}. Requests
    are decisions of exposed units since the start, by the arm assigned; a failed one was served by the other arm, or by
    none.

    `conditioned` and `rescaled` say which contrast decides (docs/adr/0012); both are off where an experiment began
    before they were known. `outcome_low` and `outcome_high` are the outcomes that could be attained when it started.
    `units_conditioned` counts the rewarded units whose contrast stands on both arms' probabilities. What the plain
    contrast says stands beside it in `plain_…`.

    `ramp` lists the treatment shares of the phases after the first, each larger than the one before. The next one opens
    after `ramp_units` matured units of a phase while no E of harm has reached `ramp_e` (`statistics.ramp`).
    `attribution_auto`: each phase's attribution window comes from the lag of feedback when it starts.

    `group`: null for an experiment that has all units to itself. `lane_low` and `lane_high` are the ends of its part of
    the units in [0, 1]; `promote_e` of a group's experiments is as many times the planned one as there are of them.

    `expected_seconds`: what `models_registry.experiments.outlook` expected at the start until a treatment that is
    better by `smallest_effect` is promoted; null where it could not tell.

    `futility_e`: null for an experiment that is never given up, as those are that began before this was known.
    `log_e_futile` is the evidence that the treatment is better by less than `smallest_effect` (`statistics.futility`).

    `secondary` names measures and `slices` fields of the state that are looked at beside, and decide nothing
    (`models_registry.experiments.exploring`).

    `running` is what the tests know of the units so far (`models_registry.experiments.evidence.Comparison`), so that a
    look reads fresh ones only. `counted_requests` are those until a moment, to which a look adds what came later
    (`models_registry.experiments.looks.RequestCounts`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(
        "models_registry.RegisteredModel", on_delete=models.CASCADE, related_name="experiments"
    )
    group = models.ForeignKey(
        ExperimentGroup, on_delete=models.CASCADE, null=True, blank=True, related_name="experiments"
    )
    lane_low = models.FloatField(default=0.0, db_default=0.0)
    lane_high = models.FloatField(default=1.0, db_default=1.0)
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=16, choices=ExperimentState.choices, default=ExperimentState.RUNNING)
    salt = models.CharField(max_length=32)
    promote_e = models.FloatField(default=40.0, help_text="Promote at E⁺ of at least this")
    rollback_e = models.FloatField(default=20.0, help_text="Roll back at E⁻ of at least this")
    min_units_per_arm = models.PositiveIntegerField(default=500)
    min_seconds = models.FloatField(default=7 * 86_400)
    exposure_window_seconds = models.FloatField(default=86_400.0)
    attribution_auto = models.BooleanField(default=False)
    ramp = models.JSONField(default=list, blank=True)
    ramp_units = models.PositiveIntegerField(default=RAMP_UNITS, help_text="Matured units before the next phase")
    ramp_e = models.FloatField(default=RAMP_E, help_text="The share stays at an E of harm of at least this")
    secondary = models.JSONField(default=list, blank=True)
    slices = models.JSONField(default=list, blank=True)
    holdout_share = models.FloatField(default=0.0, db_default=0.0, help_text="Of the units, that keep the control")
    holdout_seconds = models.FloatField(default=HOLDOUT_SECONDS, db_default=HOLDOUT_SECONDS)
    smallest_effect = models.FloatField(null=True, blank=True, help_text="The difference that is worth finding")
    futility_e = models.FloatField(null=True, blank=True, help_text="Give up at E of futility of at least this")
    expected_seconds = models.FloatField(null=True, blank=True, help_text="Time until a promotion, as expected first")
    missing = models.CharField(max_length=16, choices=MissingPolicy.choices, default=MissingPolicy.EXCLUDE)
    conditioned = models.BooleanField(default=False)
    rescaled = models.BooleanField(default=False)
    outcome_low = models.FloatField(default=0.0, help_text="The lowest outcome that could be attained at the start")
    outcome_high = models.FloatField(default=1.0, help_text="The highest")
    guardrails = models.JSONField(default=list, blank=True)
    guardrail_e = models.FloatField(default=20.0, help_text="Each guardrail non-inferior at E of at least this")
    max_excess_failures = models.FloatField(default=0.05, help_text="Roll back at this excess share of failed requests")
    min_requests_for_failures = models.PositiveIntegerField(default=100, help_text="Requests an arm before that")
    units_control = models.PositiveIntegerField(default=0)
    units_treatment = models.PositiveIntegerField(default=0)
    log_e_plus = models.FloatField(default=0.0)
    log_e_minus = models.FloatField(default=0.0)
    log_e_futile = models.FloatField(default=0.0, db_default=0.0)
    estimate = models.FloatField(null=True, blank=True)
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    units_conditioned = models.PositiveIntegerField(
        default=0, help_text="Units whose contrast stands on both arms' probabilities"
    )
    plain_log_e_plus = models.FloatField(default=0.0)
    plain_log_e_minus = models.FloatField(default=0.0)
    plain_estimate = models.FloatField(null=True, blank=True)
    plain_low = models.FloatField(null=True, blank=True)
    plain_high = models.FloatField(null=True, blank=True)
    sample_ratio_mismatch = models.BooleanField(default=False)
    guardrail_evidence = models.JSONField(default=dict, blank=True)
    requests_control = models.PositiveIntegerField(default=0)
    failed_control = models.PositiveIntegerField(default=0)
    requests_treatment = models.PositiveIntegerField(default=0)
    failed_treatment = models.PositiveIntegerField(default=0)
    running = models.JSONField(default=dict, blank=True)
    counted_requests = models.JSONField(default=dict, blank=True)
    verdict = models.CharField(max_length=500, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(
        max_length=254, blank=True, default="", db_default="", help_text="Who stopped it; empty for the rule"
    )
    promoted_version = models.ForeignKey(
        "models_registry.ModelVersion",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Promoted by hand, which stopped it",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["registered_model"],
                condition=Q(state=ExperimentState.RUNNING, group__isnull=True),
                name="experiment_one_running_per_model",
            ),
            models.UniqueConstraint(fields=["group", "lane_low"], name="experiment_one_per_lane"),
            models.CheckConstraint(
                condition=Q(lane_low__gte=0, lane_low__lt=F("lane_high"), lane_high__lte=1),
                name="experiment_lane_makes_sense",
            ),
            models.CheckConstraint(
                condition=Q(group__isnull=False) | Q(lane_low=0, lane_high=1), name="experiment_lane_only_in_a_group"
            ),
            models.CheckConstraint(condition=Q(state__in=ExperimentState.values), name="experiment_state_known"),
            models.CheckConstraint(condition=Q(missing__in=MissingPolicy.values), name="experiment_missing_known"),
            models.CheckConstraint(condition=Q(salt__regex=r"^[0-9a-f]{32}$"), name="experiment_salt_is_128_bits"),
            models.CheckConstraint(
                condition=Q(promote_e__gt=1, rollback_e__gt=1, min_seconds__gte=0, exposure_window_seconds__gte=0),
                name="experiment_bounds_make_sense",
            ),
            models.CheckConstraint(
                condition=Q(holdout_share__gte=0, holdout_share__lte=0.5, holdout_seconds__gt=0),
                name="experiment_holdout_makes_sense",
            ),
            models.CheckConstraint(
                condition=Q(ramp_units__gte=1, ramp_e__gt=1), name="experiment_ramp_bounds_make_sense"
            ),
            models.CheckConstraint(
                condition=(Q(smallest_effect__isnull=True) | Q(smallest_effect__gt=0, smallest_effect__lte=1))
                & (Q(expected_seconds__isnull=True) | Q(expected_seconds__gte=0))
                & (Q(futility_e__isnull=True) | Q(futility_e__gt=1, smallest_effect__isnull=False)),
                name="experiment_outlook_makes_sense",
            ),
            models.CheckConstraint(
                condition=Q(
                    guardrail_e__gt=1,
                    max_excess_failures__gt=0,
                    max_excess_failures__lte=1,
                    min_requests_for_failures__gte=1,
                ),
                name="experiment_guardrail_bounds_make_sense",
            ),
            models.CheckConstraint(
                condition=Q(failed_control__lte=F("requests_control"), failed_treatment__lte=F("requests_treatment")),
                name="experiment_failed_are_requests",
            ),
            models.CheckConstraint(
                condition=Q(outcome_low__gte=0, outcome_low__lt=F("outcome_high"), outcome_high__lte=1),
                name="experiment_outcome_range_makes_sense",
            ),
            models.CheckConstraint(
                condition=Q(state=ExperimentState.RUNNING, ended_at__isnull=True)
                | (~Q(state=ExperimentState.RUNNING) & Q(ended_at__isnull=False)),
                name="experiment_ended_at_exactly_when_over",
            ),
            models.CheckConstraint(
                condition=~Q(state=ExperimentState.FUTILE) | Q(futility_e__isnull=False),
                name="experiment_futile_only_where_it_may_be",
            ),
            models.CheckConstraint(
                condition=Q(promoted_version__isnull=True) | Q(state=ExperimentState.STOPPED),
                name="experiment_promoted_by_hand_only_when_stopped",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Phase(WorkspaceOwned):
    """A stretch of an experiment with one treatment share. Its attribution window is frozen when it starts.

    `settled` counts by arm the units that were observed in it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="phases")
    number = models.PositiveIntegerField(default=1)
    treatment_share = models.FloatField()
    attribution_window_seconds = models.FloatField()
    settled = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "number"], name="phase_number_once"),
            models.UniqueConstraint(
                fields=["experiment"], condition=Q(ended_at__isnull=True), name="phase_one_open_per_experiment"
            ),
            models.CheckConstraint(
                condition=Q(treatment_share__gt=0, treatment_share__lt=1), name="phase_share_strictly_inside"
            ),
            models.CheckConstraint(condition=Q(attribution_window_seconds__gte=0), name="phase_window_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.experiment} phase {self.number}"


class Variant(WorkspaceOwned):
    """What the units of one arm get: a version of the model, and, where the experiment is on one agent's versions, one
    of these. That one is a row of the ledger (`decisions.models.ArmSetup`); here stands its name alone."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="variants")
    arm = models.CharField(max_length=16, choices=Arm.choices)
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.PROTECT, related_name="variants")
    setup = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="The agent's version, such as “filer v3”"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "arm"], name="variant_once_per_arm"),
            models.CheckConstraint(condition=Q(arm__in=Arm.values), name="variant_arm_known"),
        ]

    def __str__(self) -> str:
        return f"{self.experiment}: {self.arm} is {self.version}"


class Exposure(WorkspaceOwned):
    """A unit met a variant. Written in the transaction of the first decision that did it.

    `assignment_probability` = P(this arm | unit), as it was used. `served_arm` differs from `arm` after a fallback;
    analysis is by `arm`. `settled`: its unit has matured, here or in an earlier phase.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="exposures")
    phase = models.ForeignKey(Phase, on_delete=models.CASCADE, related_name="exposures")
    unit = models.CharField(max_length=200)
    arm = models.CharField(max_length=16, choices=Arm.choices)
    assignment_probability = models.FloatField()
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.PROTECT, related_name="exposures")
    served_arm = models.CharField(max_length=16, choices=Arm.choices)
    fallback = models.BooleanField(default=False)
    exposed_at = models.DateTimeField()
    settled = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "phase", "unit"], name="exposure_once_per_phase"),
            models.CheckConstraint(
                condition=Q(assignment_probability__gt=0, assignment_probability__lte=1),
                name="exposure_probability_in_range",
            ),
            models.CheckConstraint(
                condition=Q(fallback=False, served_arm=F("arm")) | Q(fallback=True), name="exposure_fallback_is_said"
            ),
        ]
        indexes = [
            # What a look reads: those that may mature, and how many of them each arm has.
            models.Index(
                fields=["experiment", "exposed_at"],
                include=["phase", "arm"],
                condition=Q(settled=False),
                name="exposure_not_settled",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.unit} met {self.arm}"


class FailedRequest(WorkspaceOwned):
    """A request of a unit that nobody could answer: neither the arm that it was assigned, nor another in its place.

    There is no decision of it; the arm's error rate counts it, and so do the experiment's failed requests.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    exposure = models.ForeignKey(Exposure, on_delete=models.CASCADE, related_name="failed_requests")
    failed_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["failed_at"], name="failed_request_moment")]

    def __str__(self) -> str:
        return f"{self.exposure} and failed"


class Observation(WorkspaceOwned):
    """One matured unit's outcome, consumed once, in exposure order. Never rewritten.

    `outcome` in [0, 1], or null where the unit had no reward and the experiment leaves such units out. `guardrails`
    holds the unit's guardrail measures by name, in [0, 1], higher is worse; one that was not measured is not there.

    `log_l_control` and `log_l_treatment` are the natural logarithms of the products of the probabilities with which
    either arm would have taken the unit's actions, until it matured; null where an arm was not asked about one of them.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="observations")
    exposure = models.OneToOneField(Exposure, on_delete=models.CASCADE, related_name="observation")
    unit = models.CharField(max_length=200)
    position = models.PositiveIntegerField()
    outcome = models.FloatField(null=True)
    guardrails = models.JSONField(default=dict, blank=True)
    log_l_control = models.FloatField(null=True)
    log_l_treatment = models.FloatField(null=True)
    log_e_plus = models.FloatField(null=True)
    log_e_minus = models.FloatField(null=True)
    matured_at = models.DateTimeField()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["experiment", "unit"], name="observation_once_per_unit"),
            models.UniqueConstraint(fields=["experiment", "position"], name="observation_position_once"),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(outcome__gte=0, outcome__lte=1),
                name="observation_outcome_in_range",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.unit}: {self.outcome}"
