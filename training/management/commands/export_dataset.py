"""`manage.py export_dataset`: writes a dataset's rows for other trainers, in TRL's formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from training.datasets.other_formats import FILES, FORMATS, LINES, LIST, as_list, stream_rows
from training.models import DatasetSnapshot
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError

EXIT_FAILED = 1
FOLDER = "huggingface"
SAVE = (sys.executable, "-m", "training.engine.text.save_dataset")
LAST_WORDS = 2000


class Command(UncheckedCommand):
    help = (
        "Writes a dataset's rows for other trainers: JSON lines, a JSON list, or a folder that datasets.load_from_disk "
        "opens. Exit codes: 0 written, 1 the rows could not be saved as a folder, 2 the dataset does not exist, does "
        "not hold enough for the format, or --to exists already (nothing is written)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dataset", type=uuid.UUID, help="ID of the dataset")
        parser.add_argument("--to", type=Path, required=True, help="file to write; for huggingface a folder")
        parser.add_argument("--format", choices=FORMATS, default="rows", help="content of a row")
        parser.add_argument("--as", dest="file", choices=[*FILES, FOLDER], default=LINES, help="type of the file")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        dataset = DatasetSnapshot.objects.select_related("artifact").filter(pk=options["dataset"]).first()
        if dataset is None:
            self.refuse(f"dataset: {options['dataset']} does not exist")
        place: Path = options["to"]
        if place.exists():
            self.refuse(f"--to: {place} is there already")
        if options["file"] == FOLDER and find_spec("datasets") is None:
            self.refuse("--as: huggingface needs datasets: run make text, or install reckoner-ledger[text]")
        try:
            rows = stream_rows(dataset, options["format"])
        except ReckonerError as error:
            self.refuse(" ".join([error.message, *(f"{one.field}: {one.reason}." for one in error.faults)]))
        if options["file"] != FOLDER:
            with place.open("wb") as file:
                file.writelines(as_list(rows) if options["file"] == LIST else rows)
        else:
            with tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as folder:
                source = Path(folder) / "rows.jsonl"
                with source.open("wb") as file:
                    file.writelines(rows)
                self._save(source, place)
        if options["json"]:
            told = {
                "output": str(place),
                "dataset": str(dataset.id),
                "format": options["format"],
                "as": options["file"],
            }
            self.stdout.write(json.dumps(told))
        else:
            self.stdout.write(f"{place}: {options['format']} of {dataset.name}")

    def _save(self, rows: Path, folder: Path) -> None:
        """Exits where it fails."""
        ended = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
            [*SAVE, str(rows), str(folder)],
            env=os.environ | {"HF_HUB_OFFLINE": "1"},  # a file is read: nothing is to be asked of a hub
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            self.stderr.write(ended.stderr[-LAST_WORDS:].strip() or f"ended with {ended.returncode}")
            sys.exit(EXIT_FAILED)
