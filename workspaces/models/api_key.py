"""API keys. Only a peppered HMAC of the secret is stored."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from workspaces.models.workspace import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Scope(models.TextChoices):
    DECISIONS_WRITE = "decisions:write", "Record decisions"
    FEEDBACK_WRITE = "feedback:write", "Record feedback"
    ROUTE_READ = "route:read", "Ask an agent to decide"
    EXPORT_READ = "export:read", "Read and export the ledger"
    ADMIN = "admin", "Everything, training and promotion included"


class ApiKey(WorkspaceOwned):
    """`previous_hmac` is the secret before the last rotation; it opens until `previous_until`.

    Limits: `requests_a_minute` (null: the instance's), `spend_a_day` in the unit of the backends' prices, by UTC days
    (null: none), and `agents`, slugs that the key may ask (empty: all). An agent that a slug names may come later.

    `clock_ahead_seconds`: by how much the clock of a program with this key was ahead (negative: behind) when that was
    last seen, at `clock_seen_at`; null where nothing was wrong (workspaces.access.clocks).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16, unique=True)
    secret_hmac = models.BinaryField(max_length=32)
    previous_hmac = models.BinaryField(max_length=32, null=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope.choices))
    created_by = models.ForeignKey("workspaces.User", on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    clock_ahead_seconds = models.FloatField(null=True, blank=True)
    clock_seen_at = models.DateTimeField(null=True, blank=True)
    requests_a_minute = models.PositiveIntegerField(null=True, blank=True)
    spend_a_day = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    agents = ArrayField(models.SlugField(max_length=63, db_index=False), default=list, db_default=[], blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=list(Scope.values)) & ~models.Q(scopes=[]),
                name="api_key_scopes_known",
            ),
            models.CheckConstraint(
                condition=models.Q(previous_hmac__isnull=True, previous_until__isnull=True)
                | models.Q(previous_hmac__isnull=False, previous_until__isnull=False),
                name="api_key_previous_has_an_end",
            ),
            models.CheckConstraint(
                condition=(models.Q(requests_a_minute__isnull=True) | models.Q(requests_a_minute__gt=0))
                & (models.Q(spend_a_day__isnull=True) | models.Q(spend_a_day__gt=0)),
                name="api_key_limits_are_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def clock_off(self) -> int | None:
        """Seconds of whole minutes, to whichever side."""
        return None if self.clock_ahead_seconds is None else 60 * round(abs(self.clock_ahead_seconds) / 60)
