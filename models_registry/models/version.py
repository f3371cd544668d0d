"""Registered models, their numbered versions, and the aliases that say which one serves."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from models_registry.models.artifact import ArtifactKind
from workspaces.ids import uuid7
from workspaces.models import WorkspaceOwned


class VersionState(models.TextChoices):
    READY = "ready", "Ready"
    RETIRED = "retired", "Retired"


class AliasName(models.TextChoices):
    CHAMPION = "champion", "Champion"
    CHALLENGER = "challenger", "Challenger"


class RegisteredModel(WorkspaceOwned):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=63)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="registered_model_once")]

    def __str__(self) -> str:
        return self.name


class ModelVersion(WorkspaceOwned):
    """A frozen artefact: full weights, an adapter over `base`'s weights, or a reward model of either kind.

    `base` is the version whose weights an adapter needs; `parent` is the one that training started from. `marked_at`
    says when it became known that it, or one it came from, learnt from rows that were erased since (docs/erasure.md).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=VersionState.choices, default=VersionState.READY)
    artifact = models.ForeignKey("models_registry.Artifact", on_delete=models.PROTECT, related_name="versions")
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="adapters")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    method = models.CharField(max_length=32, help_text="How it came to be: a training method, or import")
    description = models.CharField(max_length=500, blank=True)
    metrics = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    marked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["registered_model", "number"], name="model_version_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="model_version_numbers_from_one"),
            models.CheckConstraint(condition=Q(state__in=VersionState.values), name="model_version_state_known"),
            models.CheckConstraint(condition=~Q(base=F("id")) & ~Q(parent=F("id")), name="model_version_not_own_base"),
        ]

    def __str__(self) -> str:
        return f"{self.registered_model.name}:{self.number}"

    @property
    def is_reward_model(self) -> bool:
        """Whether it scores texts. Then it is no policy, and serves no traffic."""
        return self.artifact.kind == ArtifactKind.REWARD_MODEL

    @property
    def is_adapter(self) -> bool:
        """Whether it needs the weights of another model."""
        return self.artifact.kind == ArtifactKind.ADAPTER

    @property
    def weights(self) -> ModelVersion:
        """The version whose full weights it needs: itself, or what its adapter lies over."""
        return self.base or self

    @property
    def base_model(self) -> str:
        """What its first ancestor was made from: `tiny`, a hub id or a folder's name; "" where nobody noted it."""
        return str(self.artifact.meta.get("base_model", ""))


class Alias(WorkspaceOwned):
    """A movable name. The unique constraint is the promise: exactly one champion at any instant."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=16, choices=AliasName.choices)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="aliases")
    moved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(fields=["registered_model", "name"], name="alias_once_per_model"),
            models.CheckConstraint(condition=Q(name__in=AliasName.values), name="alias_name_known"),
        ]

    def __str__(self) -> str:
        return f"{self.registered_model.name}@{self.name}"


class GateKind(models.TextChoices):
    HELD_OUT = "held_out", "Paired difference on held-out inputs"
    OFF_POLICY = "off_policy", "Estimate from logged decisions"


class GateVerdict(WorkspaceOwned):
    """What one gate says of a version. Written by the training floor, read by this one (`models_registry.gates`).

    `refusals` are the reasons why the gate could not answer, a sentence each; empty where it did. The interval is of
    the difference to `against`, or of an estimate from the log to what acted there, which is one version or many:
    then `against` is null. It is null where nothing is known.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="gate_verdicts")
    against = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=32, choices=GateKind.choices)
    passed = models.BooleanField()
    refusals = models.JSONField(default=list)
    estimate = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    details = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(low__lte=F("estimate"), estimate__lte=F("high"))
                | Q(estimate__isnull=True, low__isnull=True, high__isnull=True, passed=False),
                name="gate_interval_holds_estimate",
            ),
            models.CheckConstraint(condition=Q(passed=False) | Q(refusals=[]), name="gate_refuses_or_passes"),
        ]

    def __str__(self) -> str:
        said = "refused" if self.refusals else "passed" if self.passed else "not passed"
        return f"{self.version} against {self.against or 'the log'}: {said}"

    @property
    def shows_harm(self) -> bool:
        """It could answer, and the whole interval lies below 0."""
        return not self.refusals and self.high is not None and self.high < 0

    @property
    def better_than(self) -> str:
        """For people, what the estimate is compared with, and where."""
        if self.kind == GateKind.OFF_POLICY:
            return f"{self.against or 'what acted'} by logged decisions"
        return f"{self.against} on held-out rows"
