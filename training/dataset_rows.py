"""A dataset's rows as JSON lines, for other trainers: as they were frozen, or in TRL's formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from models_registry.artifacts import artifact_path
from training.dataset_parts import ROWS_FILE
from training.models import DatasetSnapshot
from workspaces.errors import Conflict, FieldFault, InvalidInput

Row = dict[str, Any]
ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}


def as_completion(row: Row) -> Row:
    """With a `completion` beside the prompt: the right action of labelled rows, the action of logged ones. Preference
    pairs have `chosen` and `rejected`, as they are."""
    if "chosen" in row or "completion" in row:
        return row
    return row | {"completion": row["answer"] if "answer" in row else row["action"]}


def as_chat(row: Row) -> Row:
    """As `as_completion`, with each text as the messages of a chat: the prompt is the user's, the rest the model's."""
    told = as_completion(row)
    messages = {name: [{"role": role, "content": told[name]}] for name, role in ROLES.items() if name in told}
    return told | messages


FORMATS: Mapping[str, Callable[[Row], Row] | None] = {"rows": None, "completion": as_completion, "chat": as_chat}


def stream_rows(dataset: DatasetSnapshot, format: str) -> Iterator[bytes]:
    """JSON lines, each with its line break. Raises InvalidInput, and Conflict where the files are not there."""
    if format not in FORMATS:
        raise InvalidInput(
            "The format is unknown.", faults=[FieldFault("format", f"{format[:40]!r} is unknown", ", ".join(FORMATS))]
        )
    if dataset.marked_at is not None:
        raise Conflict(f"{dataset.erased_rows} of its rows were erased. Rebuild the dataset.")
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file():
        raise Conflict("The dataset's files are not in the store of artifacts.")
    return _stream(path, FORMATS[format])


def _stream(path: Path, shape: Callable[[Row], Row] | None) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    with path.open("rb") as lines:
        for line in lines:
            yield line if shape is None else encode(shape(msgspec.json.decode(line))) + b"\n"
