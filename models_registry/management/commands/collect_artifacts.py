"""`manage.py collect_artifacts`: removes now what the daily removal would, or shows it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from models_registry.artifacts.collecting import collect_artifacts, find_unheld
from workspaces.commands import UncheckedCommand

MOST_DAYS = 36_500


class Command(UncheckedCommand):
    help = (
        "Removes artifacts that nothing uses, and files without a row, in all workspaces. Exit codes: 0 done, 2 the "
        "days are out of range."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
        parser.add_argument("--days", type=float, help="kept at least (default RECKONER_KEEP_ARTIFACT_DAYS)")
        parser.add_argument("--json", action="store_true", help="one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        kept = settings.KEEP_ARTIFACT_DAYS if options["days"] is None else options["days"]
        if not 0 < kept <= MOST_DAYS:
            self.refuse(f"--days: {kept:g} must be above 0, up to {MOST_DAYS:,}")
        before = timezone.now() - dt.timedelta(days=kept)
        if options["dry_run"]:
            self._show(before, options["json"])
            return
        removed = sum(collect_artifacts(before))
        self.stdout.write(_line({"removed": removed}) if options["json"] else f"{removed} removed")

    def _show(self, before: dt.datetime, as_json: bool) -> None:
        unheld = list(find_unheld(before))
        total = sum(one.bytes for one in unheld)
        if as_json:
            rows = [asdict(one) | {"id": str(one.id) if one.id is not None else None} for one in unheld]
            self.stdout.write(_line({"unheld": rows, "bytes": total}))
            return
        for one in unheld:
            self.stdout.write(f"{_size(one.bytes):>10}  {one.digest[:12]}  {one.kind}  {one.workspace}".rstrip())
        self.stdout.write(f"{_size(total):>10}  {len(unheld)} would be removed")


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content)


def _size(count: int) -> str:
    return str(filesizeformat(count)).replace("\xa0", " ")
