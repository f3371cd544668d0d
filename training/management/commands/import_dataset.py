"""`manage.py import_dataset`: imports a file of rows in any form that we know as a dataset."""

from __future__ import annotations

from pathlib import Path

from training.imports.row_files import RowFile, read_row_file
from training.management.commands import import_labelled


class Command(import_labelled.Command):
    help = (
        "Imports rows for training as a dataset: labelled rows, rows of export_dataset and export_training_data, and "
        "the rows of TRL, ShareGPT, Alpaca and HH-RLHF. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )

    def read(self, path: Path) -> tuple[RowFile, list[str]]:
        return read_row_file(path)
