"""Fingerprints of erased names, to recognise them when they are sent again."""

from __future__ import annotations

from django.db import models

from workspaces.models import WorkspaceOwned


class ErasedName(WorkspaceOwned):
    """`id` is the fingerprint (`decisions.erasure.names`), which is the workspace's own. `target` is the row that the
    name led to, where what is sent under it may still belong there: an episode's."""

    id = models.UUIDField(primary_key=True, editable=False)
    target = models.UUIDField(null=True)

    def __str__(self) -> str:
        return f"erased name {self.id}"
