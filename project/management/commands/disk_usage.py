"""`manage.py disk_usage`: how much the folders and tables take on the disk, and how long they are kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.template.defaultfilters import filesizeformat

from project.upkeep.disk import measure_disk
from workspaces.commands import UncheckedCommand

MOST_TABLES = 12


class Command(UncheckedCommand):
    help = "Shows the disk use of the instance's folders and the database's tables. Exit code: 0."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="everything, as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        usage = measure_disk()
        if options["json"]:
            self.stdout.write(json.dumps(asdict(usage)))
            return
        for use in usage.kinds:
            self.stdout.write(f"{_size(use.bytes):>10}  {use.what}; kept {use.kept}")
        self.stdout.write(f"{_size(usage.used_bytes):>10}  in total; {_size(usage.free_bytes)} are free")
        self.stdout.write("\nThe largest tables:")
        for table in usage.tables[:MOST_TABLES]:
            rows = f", about {table.rows:,} rows" if table.rows is not None else ""
            self.stdout.write(f"{_size(table.bytes):>10}  {table.table}{rows}")


def _size(size: int) -> str:
    return str(filesizeformat(size)).replace("\xa0", " ")
