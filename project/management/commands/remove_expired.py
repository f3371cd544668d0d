"""`manage.py remove_expired`: removes now what the daily job would remove."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from project.upkeep.lifetimes import LIVES, remove_expired
from workspaces.commands import UncheckedCommand


class Command(UncheckedCommand):
    help = "Removes expired data, as the scheduler does daily. Exit code: 0."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="counts by kind, as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        removed = dict.fromkeys((life.kind for life in LIVES), 0)
        for kind, count in remove_expired():
            removed[kind] += count
        if options["json"]:
            self.stdout.write(json.dumps(removed))
            return
        for life in LIVES:
            self.stdout.write(f"{removed[life.kind]:>8,}  {life.what}; kept {life.kept}")
