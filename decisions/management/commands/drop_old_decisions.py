"""`manage.py drop_old_decisions`: drops old months now, as beat does daily with RECKONER_KEEP_MONTHS."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import OperationalError
from django.utils import timezone

from decisions.partitions.retention import drop_old_months
from workspaces.commands import UncheckedCommand

EXIT_BUSY, EXIT_BAD_INPUT = 1, 2


class Command(UncheckedCommand):
    help = (
        "Deletes old months of the ledger of all workspaces. "
        "Exit codes: 0 done, 1 the tables are in use, try again, 2 the number of months is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--months", type=int, help="full months to keep besides the current one (default: RECKONER_KEEP_MONTHS)"
        )
        parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        months = settings.KEEP_MONTHS if options["months"] is None else options["months"]
        if not 1 <= months <= 1200:
            self.stderr.write("--months: 1 to 1200 (RECKONER_KEEP_MONTHS gives none)")
            sys.exit(EXIT_BAD_INPUT)
        try:
            dropped = drop_old_months(now=timezone.now(), months=months, dry_run=options["dry_run"])
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) is None:
                raise  # the database does not answer
            self.stderr.write(f"The ledger's tables are in use. Try again: {error}")
            sys.exit(EXIT_BUSY)
        if options["json"]:
            self.stdout.write(json.dumps({"dry_run": options["dry_run"], "dropped": [asdict(one) for one in dropped]}))
            return
        word = "would be deleted" if options["dry_run"] else "gone"
        for one in dropped:
            rows = ", ".join(f"{count} {table.removeprefix('decisions_')}" for table, count in one.rows.items())
            self.stdout.write(f"{one.month}: {rows} {word}")
        if not dropped:
            self.stdout.write("no month is that old")
