"""A rehearsal: the loop on a team's labelled texts, in a workspace of its own."""

from __future__ import annotations

from django.db import models

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class Rehearsal(WorkspaceOwned):
    """What was asked and what came of it. `source` holds the cleaned rows, `plan` and `about` the rest of the input.

    `results` grows by one entry a seed; `report` is there once all seeds are done. The job says how far it is. The same
    rows with the same plan are the same rehearsal: one that was cancelled or died is taken up again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 over the cleaned rows, their fields and the plan")
    source = models.ForeignKey("models_registry.Artifact", on_delete=models.PROTECT, related_name="rehearsals")
    plan = models.JSONField()
    about = models.JSONField(default=dict, help_text="File, fields, labels, and what was left out of the file")
    job = models.OneToOneField("jobs.Job", on_delete=models.PROTECT, null=True, related_name="rehearsal")
    results = models.JSONField(default=list)
    report = models.JSONField(null=True, blank=True)
    requested_by = models.CharField(max_length=254)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["digest"], name="rehearsal_digest")]

    def __str__(self) -> str:
        return self.name
