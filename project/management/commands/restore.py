"""`manage.py restore FILE`: an instance of what `manage.py backup` wrote."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from project.embedded.errors import EmbeddedError
from workspaces.commands import UncheckedCommand

EXIT_BROKEN = 1


class Command(UncheckedCommand):
    help = (
        "Restores a backup into an instance that does not run and whose database is empty, and checks every artifact. "
        "Code in the database's dump is refused. Exit codes: 0; 1 an artifact is missing or damaged; 2 the file is no "
        "backup, holds code, or something is in the way; 3 the instance runs; 4 no database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what `manage.py backup` wrote")
        parser.add_argument(
            "--trust", action="store_true", help="restore a dump of your own unchecked: its code runs with all rights"
        )
        parser.add_argument("--json", action="store_true", help="what was restored, as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        from project.backup.restoring import restore_backup

        try:
            restored = restore_backup(options["file"].absolute(), trust=options["trust"])
        except EmbeddedError as error:
            self.stderr.write(str(error))
            sys.exit(error.exit_code)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(restored)))
        else:
            self.stdout.write(
                f"Restored the backup of {restored.made_at}: {restored.tables} tables; "
                f"{restored.artifacts - len(restored.broken)} of {restored.artifacts} artifacts are whole. "
                "Start the instance: it migrates first."
            )
            for digest in restored.broken:
                self.stdout.write(f"missing or damaged: {digest}")
        if restored.broken:
            sys.exit(EXIT_BROKEN)
