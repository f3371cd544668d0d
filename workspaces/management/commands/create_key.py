"""`manage.py create_key`: an API key for a program, shown once."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from workspaces.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import Scope, Workspace
from workspaces.services import MAX_LIFE, create_api_key

EXIT_BAD_INPUT = 2


class Command(UncheckedCommand):
    help = (
        "Makes an API key and prints it once. Exit codes: 0 made, 2 the workspace, a scope or the time is not usable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the key is for")
        parser.add_argument("--workspace", help="slug; may be left out where there is only one workspace")
        parser.add_argument(
            "--scope",
            action="append",
            dest="scopes",
            help=f"one of {', '.join(Scope.values)}; repeatable",
            default=None,
        )
        parser.add_argument("--expires-days", type=float, help="the key stops after so many days (default: never)")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspaces = Workspace.objects.order_by("created_at")
        if options["workspace"]:
            workspaces = workspaces.filter(slug=options["workspace"])
        found = list(workspaces[:2])
        if len(found) != 1:
            known = ", ".join(Workspace.objects.values_list("slug", flat=True)) or "none"
            self._refuse(f"--workspace: name one of: {known}")
        days = options["expires_days"]
        if days is not None and not 0 < days <= MAX_LIFE.days:
            self._refuse(f"--expires-days: more than 0, at most {MAX_LIFE.days}")
        expires_at = None if days is None else timezone.now() + dt.timedelta(days=days)
        try:
            made = create_api_key(
                by=system(found[0]), name=options["name"], scopes=options["scopes"] or [], expires_at=expires_at
            )
        except ReckonerError as error:
            self._refuse("; ".join(f"--scope: {fault.reason}, give {fault.expected}" for fault in error.faults))
        if options["json"]:
            self.stdout.write(json.dumps({"key": made.token, "prefix": made.key.prefix, "scopes": made.key.scopes}))
        else:
            self.stdout.write(made.token)

    def _refuse(self, reason: str) -> None:
        self.stderr.write(reason)
        sys.exit(EXIT_BAD_INPUT)
