"""`manage.py import_dataset`: imports a file of rows in any form that we know as a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from training.imports.row_files import RowFile, read_row_file, read_usable_rows
from training.management.commands import import_labelled


class Command(import_labelled.Command):
    help = (
        "Imports rows for training as a dataset: labelled rows, rows of export_dataset and export_training_data, and "
        "the rows of TRL, ShareGPT, Alpaca and HH-RLHF. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )
    leave_out_faulty = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--leave-out-faulty", action="store_true", help="import the others where some lines have faults"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.leave_out_faulty = options["leave_out_faulty"]
        super().handle(*args, **options)

    def read(self, path: Path) -> tuple[RowFile, list[str]]:
        if not self.leave_out_faulty:
            return read_row_file(path)
        found, left_out, faults = read_usable_rows(path)
        if not faults:
            for fault in left_out:
                self.stderr.write(f"left out: {fault}")
        return found, faults
