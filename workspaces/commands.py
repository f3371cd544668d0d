"""The base class of management commands: a fast start, refusals with exit code 2, and finding the workspace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from django.core.management.base import BaseCommand

if TYPE_CHECKING:
    from workspaces.models import Workspace

EXIT_BAD_INPUT = 2


class UncheckedCommand(BaseCommand):
    """A command that starts at once: Django's checks load every view, seconds of CPU; `make check` runs them."""

    requires_system_checks: list[str] = []

    def refuse(self, reason: str) -> NoReturn:
        """Says what is wrong with what was given, and exits with 2."""
        self.stderr.write(reason)
        sys.exit(EXIT_BAD_INPUT)

    def find_workspace(self, slug: str | None) -> Workspace:
        """The one with the slug, or the only one there is; else exits with 2 and names them."""
        from workspaces.models import Workspace  # `up` is loaded before Django's apps are

        workspaces = Workspace.objects.order_by("created_at")
        found = list((workspaces.filter(slug=slug) if slug else workspaces)[:2])
        if len(found) != 1:
            known = ", ".join(Workspace.objects.values_list("slug", flat=True)) or "none"
            self.refuse(f"--workspace: name one of: {known}")
        return found[0]
