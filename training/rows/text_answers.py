"""The rows of a dataset of texts that a model's own texts can be compared with: those that are known to be right.

A run's held-out data, suites and pages of evaluations ask here, and the engine the same of the rows
(`training.engine.rows.texts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from models_registry.artifacts.opening import artifact_path
from training.engine.rows.texts import is_right
from training.engine.rows.types import Text
from training.engine.spec.methods import RowKind
from training.engine.spec.right_from import RIGHT_FROM
from training.models import DatasetSnapshot
from training.rows.parts import ROWS_FILE
from workspaces.errors import FieldFault


def read_right_texts(path: Path, right_from: float = RIGHT_FROM) -> Iterator[Text]:
    """Those of the file's rows of text that are right from `right_from` on, in (0, 1]. Raises msgspec.DecodeError."""
    decode = msgspec.json.Decoder(Text).decode
    with path.open("rb") as lines:
        for line in lines:
            if line.strip() and is_right(row := decode(line), right_from):
                yield row


def find_text_faults(field: str, dataset: DatasetSnapshot, right_from: float = RIGHT_FROM) -> list[FieldFault]:
    """Why nothing can be compared with the dataset's texts. None of other rows, of a dataset that is yet to be made,
    and of files that are gone: the engine will say so."""
    if dataset.row_kind is not RowKind.TEXT or dataset.artifact_id is None:
        return []
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file() or any(read_right_texts(path, right_from)):
        return []
    wanted = f"texts that people wrote or confirmed, or of a reward from {right_from:g}"
    return [FieldFault(field, f"none of its {dataset.rows:,} texts is known to be right", wanted)]
