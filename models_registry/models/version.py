"""Registered models, their numbered versions, and the aliases that say which one serves."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from models_registry.errors import NotStored
from models_registry.models.artifact import NO_POLICIES, Artifact, ArtifactKind
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class VersionState(models.TextChoices):
    READY = "ready", "Ready"
    RETIRED = "retired", "Retired"


class AliasName(models.TextChoices):
    """The aliases that Reckoner moves itself, or reads. All others are free."""

    CHAMPION = "champion", "Champion"
    CHALLENGER = "challenger", "Challenger"
    FALLBACK = "fallback", "Fallback"


REMOTE = "remote"
BASE_METHOD = "base"
"""How a model came to be that a run named, by a folder or a hub id, to start from."""


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
    """A frozen artefact (full weights, an adapter over `base`'s weights, or a reward model of either kind), or a model
    that others keep, under the `remote_name` that their servers know it by.

    `base` is the version whose weights an adapter needs; `parent` is the one that training started from. `marked_at`
    says when it became known that it, or one it came from, learnt from rows that were erased since (docs/erasure.md).
    `approved_at` says since when a person approves of it (`models_registry.versions.approval`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=VersionState.choices, default=VersionState.READY)
    artifact = models.ForeignKey(
        "models_registry.Artifact", on_delete=models.PROTECT, related_name="versions", null=True, blank=True
    )
    remote_name = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Of a remote model: gpt-4o-mini, for example"
    )
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="adapters")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="children")
    method = models.CharField(max_length=32, help_text="How it came to be: a training method, or import")
    description = models.CharField(max_length=500, blank=True)
    metrics = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    marked_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    tags = ArrayField(models.CharField(max_length=50), default=list, db_default=[], blank=True)
    notes = models.TextField(max_length=5000, blank=True, default="", db_default="")
    approved_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=254, blank=True, default="", db_default="")
    approval_note = models.CharField(max_length=500, blank=True, default="", db_default="")

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["registered_model", "number"], name="model_version_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="model_version_numbers_from_one"),
            models.CheckConstraint(condition=Q(state__in=VersionState.values), name="model_version_state_known"),
            models.CheckConstraint(condition=~Q(base=F("id")) & ~Q(parent=F("id")), name="model_version_not_own_base"),
            models.CheckConstraint(
                condition=Q(artifact__isnull=False, remote_name="")
                | (Q(artifact__isnull=True, base__isnull=True) & ~Q(remote_name="")),
                name="model_version_stored_or_remote",
            ),
            models.CheckConstraint(
                condition=Q(state=VersionState.RETIRED, retired_at__isnull=False)
                | (~Q(state=VersionState.RETIRED) & Q(retired_at__isnull=True)),
                name="model_version_retired_at_exactly_when_retired",
            ),
            models.CheckConstraint(
                condition=Q(approved_at__isnull=True, approved_by="", approval_note="")
                | (Q(approved_at__isnull=False) & ~Q(approved_by="")),
                name="model_version_approved_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.registered_model.name}:{self.number}"

    @property
    def is_remote(self) -> bool:
        """Whether others keep its weights. Then nothing here can train on top of it, measure or export it."""
        return self.artifact is None

    @property
    def kind(self) -> str:
        """`remote`, or its artifact's kind."""
        return REMOTE if self.artifact is None else self.artifact.kind

    @property
    def kind_name(self) -> str:
        """The kind for people."""
        return "Remote model" if self.artifact is None else self.artifact.get_kind_display()

    @property
    def stored(self) -> Artifact:
        """Its artifact. Raises NotStored for a remote model."""
        if self.artifact is None:
            raise NotStored(f"{self} is a remote model ({self.remote_name}): its weights are not here.")
        return self.artifact

    @property
    def is_policy(self) -> bool:
        """Whether it decides: a reward model scores texts, and a sentence encoder turns them into vectors."""
        return self.kind not in NO_POLICIES

    @property
    def is_classifier(self) -> bool:
        """Whether it scores options by linear weights, and writes no text."""
        return self.kind == ArtifactKind.CLASSIFIER

    @property
    def is_encoder(self) -> bool:
        """Whether it turns texts into vectors, for the classifiers over it."""
        return self.kind == ArtifactKind.ENCODER

    @property
    def is_reward_model(self) -> bool:
        """Whether it scores texts. Then it is no policy, and serves no traffic."""
        return self.kind == ArtifactKind.REWARD_MODEL

    @property
    def is_adapter(self) -> bool:
        """Whether it needs the weights of another model."""
        return self.kind == ArtifactKind.ADAPTER

    @property
    def weights(self) -> ModelVersion:
        """The version whose full weights it needs: itself, or what its adapter lies over."""
        return self.base or self

    @property
    def acting_sha256(self) -> str:
        """The hash of what acts with it, its base's weights among them, as trajectories carry it; "" where nobody noted
        it, as of a remote model and of a model from elsewhere."""
        meta = {} if self.artifact is None else self.artifact.meta
        return str(meta.get("acting_sha256") or (meta.get("weights_sha256") if not self.is_adapter else "") or "")

    @property
    def base_model(self) -> str:
        """What its first ancestor was made from: `tiny`, a hub id or a folder's name; a remote model's name; "" where
        nobody noted it."""
        return self.remote_name if self.artifact is None else str(self.artifact.meta.get("base_model", ""))


ALIAS_NAME = r"^[a-z][a-z0-9-]{0,62}$"


class Alias(WorkspaceOwned):
    """A movable name. The unique constraint is the promise: exactly one champion at any instant.

    `champion` serves, `challenger` is tried in an experiment, `fallback` answers where no other version can. Every
    other name is free.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=63)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="aliases")
    moved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(fields=["registered_model", "name"], name="alias_once_per_model"),
            models.CheckConstraint(condition=Q(name__regex=ALIAS_NAME), name="alias_name_is_a_slug"),
        ]

    def __str__(self) -> str:
        return f"{self.registered_model.name}@{self.name}"


class AliasMove(WorkspaceOwned):
    """One change of an alias, append-only: where it pointed before and after (null: nowhere), by whom, and why."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    registered_model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="alias_moves")
    name = models.CharField(max_length=63)
    before = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    after = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    by = models.CharField(max_length=254)
    reason = models.CharField(max_length=500, blank=True)
    moved_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(before__isnull=True, after__isnull=False)
                | Q(before__isnull=False, after__isnull=True)
                | (Q(before__isnull=False, after__isnull=False) & ~Q(before=F("after"))),
                name="alias_move_changes_something",
            ),
        ]
        indexes = [models.Index(fields=["registered_model", "name", "-id"], name="alias_move_newest")]

    def __str__(self) -> str:
        return f"{self.registered_model.name}@{self.name}: {self.before} → {self.after}"


class GateKind(models.TextChoices):
    HELD_OUT = "held_out", "Paired difference on held-out inputs"
    OFF_POLICY = "off_policy", "Estimate from logged decisions"


class GateVerdict(WorkspaceOwned):
    """What one gate says of a version. Written by the training floor, read by this one
    (`models_registry.versions.gates`).

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
