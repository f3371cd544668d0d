"""Saves JSON lines as a Hugging Face `Dataset` folder, which `datasets.load_from_disk` opens:

    python -m training.engine.text.save_dataset ROWS.jsonl FOLDER

`manage.py export_dataset` starts it, as a process of its own: other processes do not load `datasets`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import datasets


def save_dataset(rows: Path, folder: Path) -> int:
    """Writes the folder, which must not be there yet; the number of rows. The columns' types are those that `datasets`
    finds in the rows."""
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as cache:
        found = datasets.load_dataset("json", data_files=str(rows), split="train", cache_dir=cache)
        found.save_to_disk(str(folder))
        return int(found.num_rows)


if __name__ == "__main__":
    sys.stdout.write(f"{save_dataset(Path(sys.argv[1]), Path(sys.argv[2]))}\n")
