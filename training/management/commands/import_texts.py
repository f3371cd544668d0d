"""`manage.py import_texts`: imports what `export_training_data` wrote, and other programs' rows, as a dataset."""

from __future__ import annotations

from training.management.commands import import_dataset


class Command(import_dataset.Command):
    help = (
        "Imports the JSON lines of export_training_data, chats or prompts with completions, as a dataset: of decisions "
        "that chose or ranked rewarded decisions, of others texts; as import_dataset also what other programs write. "
        "Exit codes: 0 imported, 2 the file or the agent is invalid (every fault is named, nothing is written)."
    )
