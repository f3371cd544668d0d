"""`manage.py import_texts`: imports what `export_training_data` wrote as a dataset of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training.imports.texts import read_texts
from training.management.commands import import_labelled
from training.models import DatasetKind


class Command(import_labelled.Command):
    help = (
        "Imports the JSON lines of export_training_data, chats or prompts with completions, as a dataset of texts. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )
    kind = DatasetKind.TEXT

    def read(self, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
        return read_texts(path)
