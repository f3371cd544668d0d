"""Failed attempts to log in, counted by workspaces.log_in."""

from __future__ import annotations

from django.db import models

from workspaces.ids import uuid7


class FailedLogIn(models.Model):
    """One wrong password. `account` is what was typed, in lower case, whether there is such a person or not."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.CharField(max_length=254)
    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["account", "at"], name="failed_log_in_account"),
            models.Index(fields=["address", "at"], name="failed_log_in_address"),
        ]

    def __str__(self) -> str:
        return f"{self.account} from {self.address}"
