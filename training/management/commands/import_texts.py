"""`manage.py import_texts`: imports what `export_training_data` wrote as a dataset."""

from __future__ import annotations

from pathlib import Path

from training.imports.exported import read_export
from training.imports.row_files import RowFile
from training.management.commands import import_labelled
from training.models import DatasetKind


class Command(import_labelled.Command):
    help = (
        "Imports the JSON lines of export_training_data, chats or prompts with completions, as a dataset: of decisions "
        "that chose or ranked rewarded decisions, of others texts. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )

    def read(self, path: Path) -> tuple[RowFile, list[str]]:
        exported, faults = read_export(path)
        return RowFile(DatasetKind(exported.kind), list(exported.rows), exported.refusals), faults
