"""Reward specs and rewards: one row for each decision, spec and version; and how far each spec has been calculated."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class CreditScheme(models.TextChoices):
    """What `decisions.rewards.credit` computes."""

    EQUAL = "equal", "Equal"
    RETURN_TO_GO = "return_to_go", "Discounted return-to-go"
    LAST_STEP = "last_step", "Last step"
    LEAVE_ONE_OUT = "leave_one_out", "Leave-one-out"


class UnknownParts(models.TextChoices):
    """What `decisions.rewards.valuing.Plan` does with components that have no value."""

    LEFT_OUT = "left_out", "Left out of the sum"
    RENORMALISED = "renormalised", "Renormalised"


class RewardSpec(WorkspaceOwned):
    """Immutable. `components` is a list of {name, weight, parameters, window_days, missing} with all defaults, and of a
    spec's own rule {text, low, high}; those of earlier releases leave defaults out. `spec_hash` is SHA-256 over its
    content.

    `unknown` says what a component without a value does to the sum: nothing, or the others share its weight.

    `credit` names the scheme by which an episode's components reach its decisions (`decisions.rewards.credit`), with a
    `discount` for each later decision. What training reads: raw rewards from `training_low` to `training_high` are 0 to
    1, clamped; `signal` names the component that says whether the action was right, for methods that learn from right
    and wrong; empty for none.

    `judges`: metrics by which judge models may count; null counts all feedback (`decisions.rewards.judged`)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="reward_specs")
    number = models.PositiveIntegerField()
    components = models.JSONField()
    clamp = models.FloatField(default=5.0)
    low = models.FloatField(default=-2.0)
    high = models.FloatField(default=2.0)
    unknown = models.CharField(
        max_length=16, default=UnknownParts.LEFT_OUT, db_default=UnknownParts.LEFT_OUT, choices=UnknownParts.choices
    )
    credit = models.CharField(max_length=16, default=CreditScheme.EQUAL, choices=CreditScheme.choices)
    discount = models.FloatField(default=1.0)
    signal = models.CharField(max_length=100, blank=True)
    training_low = models.FloatField(default=-0.5)
    training_high = models.FloatField(default=1.0)
    judges = models.JSONField(null=True, default=None)
    spec_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="reward_spec_number_once"),
            models.CheckConstraint(condition=Q(low__lt=F("high"), clamp__gt=0), name="reward_spec_range_makes_sense"),
            models.CheckConstraint(
                condition=Q(training_low__lt=F("training_high")), name="reward_spec_training_range_makes_sense"
            ),
            models.CheckConstraint(
                condition=Q(credit__in=CreditScheme.values, discount__gt=0, discount__lte=1),
                name="reward_spec_credit_makes_sense",
            ),
            models.CheckConstraint(condition=Q(unknown__in=UnknownParts.values), name="reward_spec_unknown_is_known"),
        ]

    def __str__(self) -> str:
        return f"rewards v{self.number} of {self.agent.slug}"


class Reward(WorkspaceOwned):
    """`value` in [0, 1], or null where a component failed or nothing is known.

    `components` maps a name to {"value": x} or {"error": why}. A failure is never the number 0. Late feedback makes
    `version` n + 1; earlier rows stay, because an experiment or a dataset may have read them. Partitioned by decision;
    the primary key in the database is (decision, spec, version).
    """

    pk = models.CompositePrimaryKey("decision_id", "spec_id", "version")
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    decision = models.ForeignKey(
        "decisions.Decision", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="rewards"
    )
    spec = models.ForeignKey(RewardSpec, on_delete=models.PROTECT, db_index=False, related_name="rewards")
    version = models.PositiveIntegerField()
    value = models.FloatField(null=True)
    raw = models.FloatField(null=True)
    components = models.JSONField()
    feedback_until = models.DateTimeField(
        null=True, help_text="recorded_at of the newest feedback that was read; null where there was none"
    )
    computed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(value__isnull=True) | Q(value__gte=0, value__lte=1), name="reward_value_in_range"
            ),
            models.CheckConstraint(condition=Q(version__gte=1), name="reward_versions_from_one"),
        ]
        indexes = [
            models.Index(fields=["spec", "-computed_at"], name="reward_newest"),
            models.Index(fields=["spec", "raw"], include=["decision"], name="reward_raw"),
        ]

    def __str__(self) -> str:
        return f"{self.value} for {self.decision_id}"


class RewardProgress(WorkspaceOwned):
    """How far the ledger was searched for decisions whose reward by a spec may have changed.

    `searched_until`, by the database's clock, is for every source at once: feedback, decisions, steps, episodes and
    windows. What was found waits as `RewardDue`.
    """

    spec = models.OneToOneField(RewardSpec, primary_key=True, on_delete=models.CASCADE, related_name="progress")
    searched_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.spec} until {self.searched_until}"


class RewardDue(WorkspaceOwned):
    """A decision whose reward by a spec is to be calculated. The row goes in the transaction that has calculated it, so
    a worker that is killed leaves the decision due."""

    pk = models.CompositePrimaryKey("spec_id", "decision_id")
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    spec = models.ForeignKey(RewardSpec, on_delete=models.CASCADE, db_index=False, related_name="due")
    decision = models.ForeignKey(
        "decisions.Decision", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )

    def __str__(self) -> str:
        return f"{self.decision_id} is due"


class MeasurementDue(WorkspaceOwned):
    """A decision that a component is to be measured of. The row goes in the transaction that writes the measurement."""

    pk = models.CompositePrimaryKey("component", "decision_id")
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    component = models.CharField(max_length=100)
    decision = models.ForeignKey(
        "decisions.Decision", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )

    def __str__(self) -> str:
        return f"{self.component} of {self.decision_id}"
