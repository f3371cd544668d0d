"""Episodes: the stored groups of decisions and steps."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import MD5, Lower, Trim
from django.utils import timezone

from decisions.models.tombstones import tombstone_name
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

SAME_QUERY = "md5(lower(btrim({0}.query)))"
"""SQL: equal for queries that differ in case and in space around them only."""
HELD_OUT = "held-out/"
"""How sessions begin of episodes on held-out tasks, by which runs were measured. Nobody was served by them."""
IS_LIVE = f"NOT starts_with({{0}}.session, '{HELD_OUT}')"
"""SQL: the episode is not one that a run was measured by."""


class Episode(WorkspaceOwned):
    """Found by its name (`external_id`) at its agent, or by the id of the `trace` that it was told by.

    What was reported of it may come bit by bit, so all of that is nullable; NULL means that nobody said. Numbers that
    nobody reported are summed from decisions and steps when it is read (`decisions.queries.episodes.fill_totals`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # Without an index of its own: the one in Meta begins with it.
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, db_index=False, related_name="episodes")
    external_id = models.CharField(max_length=200, blank=True)
    trace = models.CharField(max_length=32, null=True, blank=True, help_text="OpenTelemetry trace id, 32 hex digits")  # noqa: DJ001 - NULL: not told by a trace
    session = models.CharField(max_length=200, blank=True)
    unit = models.CharField(max_length=200, blank=True)
    query = models.TextField(blank=True)
    final_response = models.TextField(blank=True)
    tasks_created = models.PositiveIntegerField(null=True, blank=True)
    tasks_completed = models.PositiveIntegerField(null=True, blank=True)
    tasks_failed = models.PositiveIntegerField(null=True, blank=True)
    llm_calls = models.PositiveIntegerField(null=True, blank=True)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    duration_ms = models.FloatField(null=True, blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(default=timezone.now, help_text="The server's clock")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "external_id"], condition=~Q(external_id=""), name="episode_external_id_once"
            ),
            models.UniqueConstraint(
                fields=["workspace", "trace"], condition=Q(trace__isnull=False), name="episode_trace_once"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="episode_newest"),
            models.Index(fields=["agent", "-id"], name="episode_agent_newest"),
            # Rewards are calculated again of episodes that changed.
            models.Index(fields=["workspace", "changed_at"], name="episode_changed"),
            # Episodes of the same query are compared (`SAME_QUERY`).
            models.Index(F("agent"), MD5(Lower(Trim("query"))), condition=~Q(query=""), name="episode_query"),
            models.Index(fields=["workspace", "unit", "-id"], condition=~Q(unit=""), name="episode_unit"),
            models.Index(fields=["workspace", "session"], condition=~Q(session=""), name="episode_session"),
        ]

    def __str__(self) -> str:
        return self.external_id or self.trace or str(self.id)

    @property
    def is_erased(self) -> bool:
        """What it was about is gone, and nothing more is told of it."""
        return self.external_id == tombstone_name(self.id)
