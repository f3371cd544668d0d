"""Drafts of reward specs, which are tried on history before they become the next version."""

from __future__ import annotations

from django.db import models

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class RewardDraft(WorkspaceOwned):
    """What the next reward spec of an agent might say, based on the version `base`.

    `content` is what `decisions.rewards.spec_content.plain_content` writes. A job values history by it and leaves a
    `decisions.rewards.comparison.Comparison` in `result`, null until then; no reward is written. A dropped draft is
    deleted; `published` is the version that a published one has become.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="reward_drafts")
    base = models.ForeignKey("decisions.RewardSpec", on_delete=models.CASCADE, related_name="+")
    content = models.JSONField()
    made_by = models.CharField(max_length=254)
    job = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True, related_name="+")
    result = models.JSONField(null=True)
    published = models.OneToOneField("decisions.RewardSpec", on_delete=models.SET_NULL, null=True, related_name="draft")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"draft of {self.agent.slug}'s rewards"
