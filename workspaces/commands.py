"""What the management commands of all floors share."""

from __future__ import annotations

from django.core.management.base import BaseCommand


class UncheckedCommand(BaseCommand):
    """A command that starts at once: Django's checks load every view, seconds of CPU; `make check` runs them."""

    requires_system_checks: list[str] = []
