"""A dataset's rows for other trainers, as JSON lines or one JSON list: as they were frozen, or in TRL's formats. Rows
are read and sent one by one; `kto` and `groups` read the file once before, for the numbers of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from models_registry.artifacts.opening import artifact_path
from training.engine.spec.methods import Need
from training.models import DatasetKind, DatasetSnapshot
from training.rows import trl_formats
from training.rows.parts import ROWS_FILE
from workspaces.errors import Conflict, FieldFault, InvalidInput

AS_FROZEN = "rows"
LINES, LIST = "jsonl", "json"
FILES = (LINES, LIST)
FORMATS = (AS_FROZEN, *trl_formats.FORMATS)


def formats_of(dataset: DatasetSnapshot) -> list[str]:
    """Those that its rows hold enough for, as far as its statistics tell."""
    if dataset.is_of_tasks:
        return [AS_FROZEN]
    kind, told, has = dataset.kind, dataset.statistics, dataset.find_has()
    pairs, rewarded = kind == DatasetKind.PREFERENCES, kind in (DatasetKind.LOGGED, DatasetKind.TEXT)
    untold = told.get("without_reward") == dataset.rows or "sources" in told
    earned = rewarded and not ("mean_reward" not in told and untold)
    # What statistics of earlier releases do not tell is taken for granted.
    improbable = told.get("with_probability", 1) == 0 or told.get("without_propensity") == dataset.rows
    without = {
        "preference": not pairs,
        "messages": pairs or (rewarded and Need.RIGHT_TEXTS not in has and kind == DatasetKind.TEXT),
        "kto": not pairs and not ((earned or "least_right" in told) and Need.RIGHT_AND_WRONG in has),
        "groups": not earned or told.get("groups") == 0,
        "ppo": not earned or improbable,
    }
    return [name for name in FORMATS if not without.get(name, False)]


def stream_rows(dataset: DatasetSnapshot, format: str) -> Iterator[bytes]:
    """JSON lines, each with its line break. Raises InvalidInput for an unknown format and for one that the rows do not
    hold enough for, and Conflict where the files are not there."""
    if format not in FORMATS:
        raise InvalidInput(
            "The format is unknown.", faults=[FieldFault("format", f"{format[:40]!r} is unknown", ", ".join(FORMATS))]
        )
    if dataset.marked_at is not None:
        raise Conflict(f"{dataset.erased_rows} of its rows were erased. Rebuild the dataset.")
    if dataset.is_of_tasks and format != AS_FROZEN:
        fault = FieldFault("format", "tasks have no prompt and no completion", AS_FROZEN)
        raise InvalidInput("The rows cannot be given in this format.", faults=[fault])
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file():
        raise Conflict("The dataset's files are not in the artifact store.")
    if format == AS_FROZEN:
        return _lines(path)
    try:
        rows = trl_formats.FORMATS[format](lambda: map(msgspec.json.decode, _lines(path)))
    except trl_formats.CannotFormat as error:
        raise InvalidInput(
            "The rows cannot be given in this format.", faults=[FieldFault("format", str(error), "another format")]
        ) from error
    return _encoded(rows)


def as_list(lines: Iterator[bytes]) -> Iterator[bytes]:
    """The same rows as one JSON list, a row a line."""
    before = b"["
    for line in lines:
        yield before + b"\n" + line.rstrip(b"\n")
        before = b","
    yield b"[]\n" if before == b"[" else b"\n]\n"


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        yield from lines


def _encoded(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    for row in rows:
        yield encode(row) + b"\n"
