"""Answers kept for repeated requests (workspaces.http.idempotency)."""

from __future__ import annotations

from django.db import models

from workspaces.models.workspace import WorkspaceOwned
from workspaces.storage.ids import uuid7


class KeptAnswer(WorkspaceOwned):
    """The answer to the first request that a sender made under `key`, written in the transaction of its effect; or, of
    a request that waits for a model, the claim of the key (102), which becomes its status and keeps no body.

    `sender` is an API key's or a person's name; `request_hash` is over method, path, query and body. After a person's
    erasure some are refusals (`workspaces.erasure`), so that the request still does nothing twice.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The unique constraint below serves look-ups: another index would cost every request that has a key.
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    sender = models.CharField(max_length=254)
    key = models.CharField(max_length=255)
    request_hash = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField()
    content_type = models.CharField(max_length=100, default="application/json")
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "sender", "key"], name="kept_answer_once"),
            models.CheckConstraint(
                condition=models.Q(status__gte=200, status__lt=300) | models.Q(status__in=[102, 410]),
                name="kept_answer_success_claim_or_erased",
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="kept_answer_age")]

    def __str__(self) -> str:
        return f"{self.status} for {self.key}"
