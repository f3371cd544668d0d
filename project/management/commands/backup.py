"""`manage.py backup FILE`: the instance in one file, while it runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.template.defaultfilters import filesizeformat

from workspaces.commands import UncheckedCommand


class Command(UncheckedCommand):
    help = (
        "Writes database, artifacts and secrets of this instance to one file, while it runs. Anyone with the file has "
        "everything. Exit codes: 0; 2 the file cannot be written; 4 no database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="where to write; must not exist yet")
        parser.add_argument("--runs", action="store_true", help="with the folders of runs: their logs and checkpoints")
        parser.add_argument("--json", action="store_true", help="what was written, as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        from project.backup.writing import write_backup

        backup = write_backup(options["file"].absolute(), runs=options["runs"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(backup)))
            return
        artifacts = f"{backup.artifacts} artifacts" if backup.holds_artifacts else "no artifacts, which lie at S3"
        self.stdout.write(f"{backup.file}: the database, the secrets and {artifacts}; {filesizeformat(backup.bytes)}.")
