"""Decisions.

Partitioned by RANGE of their own uuid7 id; see migration 0001 and docs/adr/0003. References to a decision carry no
database constraint: a referenced partition cannot be dropped.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from decisions.models.finish_reasons import FinishReason
from decisions.models.tombstones import ERASED_HASH
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Decision(WorkspaceOwned):
    """State, options, and the action chosen.

    `propensity` = P(action | state) under the policy that acted, after `temperature` and `epsilon`; null where it is
    unknown, and then no off-policy claim is made. `other_arm_propensity` is the same under the policy of the arm that
    the decision's unit was not assigned; null outside experiments, and where that arm could not be asked.
    Exactly one of `model_version` and `policy_name` says who acted.
    `finish_reason` says why a written answer ended, null where nobody knows; `parameters` what the request said of how
    to answer, as a client sent it. `tokens_estimated`: the server did not say the counts of tokens.
    `content_hash` tells a repeated id with the same content from a conflict.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The ledger's tables carry the indexes that queries use, not one for each foreign key: ingest pays for them.
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    agent = models.ForeignKey("decisions.Agent", on_delete=models.PROTECT, db_index=False, related_name="decisions")
    agent_version = models.ForeignKey(
        "decisions.AgentVersion", on_delete=models.PROTECT, db_index=False, related_name="decisions"
    )
    episode = models.ForeignKey(
        "decisions.Episode", on_delete=models.PROTECT, null=True, blank=True, db_index=False, related_name="decisions"
    )
    step_number = models.PositiveIntegerField(null=True, blank=True)
    unit = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - NULL: no unit was named
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    # The app's own ids. Strings and no foreign keys: a decision may come before its item was heard of.
    item_ref = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    project_ref = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    user_ref = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    state = models.JSONField()
    options = models.JSONField(null=True, blank=True)
    action = models.JSONField()
    next_state = models.JSONField(null=True, blank=True)
    completion = models.TextField(null=True, blank=True)  # noqa: DJ001
    finish_reason = models.CharField(max_length=16, choices=FinishReason.choices, null=True, blank=True)  # noqa: DJ001
    parameters = models.JSONField(null=True, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    reasoning = models.TextField(null=True, blank=True)  # noqa: DJ001
    alternatives = models.JSONField(null=True, blank=True)
    propensity = models.FloatField(null=True, blank=True)
    other_arm_propensity = models.FloatField(null=True, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    epsilon = models.FloatField(null=True, blank=True)
    model_version = models.ForeignKey(
        "models_registry.ModelVersion",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="decisions",
    )
    policy_name = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    exposure = models.ForeignKey(
        "models_registry.Exposure",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="decisions",
    )
    latency_ms = models.FloatField(null=True, blank=True)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    tokens_estimated = models.BooleanField(default=False, db_default=False)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    token_ids = models.JSONField(null=True, blank=True)
    logprobs = models.JSONField(null=True, blank=True)
    observed_at = models.DateTimeField(help_text="The client's clock")
    recorded_at = models.DateTimeField(help_text="The server's clock")
    content_hash = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(propensity__isnull=True) | Q(propensity__gt=0, propensity__lte=1),
                name="decision_propensity_in_range",
            ),
            models.CheckConstraint(
                condition=Q(other_arm_propensity__isnull=True)
                | Q(other_arm_propensity__gte=0, other_arm_propensity__lte=1),
                name="decision_other_arm_propensity_in_range",
            ),
            models.CheckConstraint(
                condition=Q(confidence__isnull=True) | Q(confidence__gte=0, confidence__lte=1),
                name="decision_confidence_in_range",
            ),
            models.CheckConstraint(
                condition=Q(model_version__isnull=False, policy_name__isnull=True)
                | Q(model_version__isnull=True, policy_name__isnull=False),
                name="decision_one_policy",
            ),
            models.CheckConstraint(
                condition=(Q(temperature__isnull=True) | Q(temperature__gt=0))
                & (Q(epsilon__isnull=True) | Q(epsilon__gte=0, epsilon__lte=1)),
                name="decision_exploration_in_range",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="decision_newest"),
            models.Index(fields=["agent", "-id"], name="decision_agent_newest"),
            models.Index(fields=["exposure"], condition=Q(exposure__isnull=False), name="decision_exposure"),
            models.Index(fields=["episode"], condition=Q(episode__isnull=False), name="decision_episode"),
            # An item's outcome reaches all its decisions.
            models.Index(
                fields=["workspace", "item_ref", "-id"], condition=Q(item_ref__isnull=False), name="decision_item"
            ),
            # Rows arrive in this order, so a few pages of block ranges do what a B-tree would cost ingest for.
            BrinIndex(fields=["recorded_at"], name="decision_recorded"),
            # Says where a name cannot be: docs/adr/0009, decisions/queries/by_name.py.
            BrinIndex(
                fields=["id", "unit", "external_id"],
                opclasses=["uuid_minmax_ops", "text_bloom_ops", "text_bloom_ops"],
                pages_per_range=32,
                autosummarize=True,
                name="decision_named",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def is_erased(self) -> bool:
        """What it was about is gone, and nobody judges it any more."""
        return bytes(self.content_hash) == ERASED_HASH
