"""Files to measure a model on: labelled rows, or texts with what should have been written (`manage.py evaluate`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from training.engine.rows.texts import find_right_texts, is_right
from training.engine.rows.types import Text
from training.engine.spec.methods import RowKind
from training.engine.spec.right_from import RIGHT_FROM
from training.imports.labelled import read_rows
from training.imports.texts import read_texts


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """`rows` as the engine reads them; `left_out`: texts that are not known to be right."""

    kind: RowKind
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0


class _Look(msgspec.Struct):
    """What tells the kinds of lines from each other."""

    id: Any = None
    completion: Any = None
    messages: Any = None


def read_answers_file(path: Path) -> tuple[KnownAnswers, list[str]]:
    """Every row, and every fault as `file:line: reason`. Texts are rows of text, or what `export_training_data` wrote;
    where nothing is said of any of them, all are taken for right."""
    first = _look_at_first(path)
    if first is None or (first.completion is None and first.messages is None):
        labelled, faults = read_rows(path)
        return KnownAnswers(RowKind.LABELLED, [msgspec.to_builtins(row) for row in labelled]), faults
    texts, faults = _read_frozen(path) if first.id is not None else _read_exported(path)
    right = find_right_texts(texts, RIGHT_FROM)
    if texts and not right and not faults:
        faults.append(f"{path}: none of its texts is known to be right")
    # The engine asks again, and takes only for right what is said to be.
    known = [row.source if is_right(row, RIGHT_FROM) else "human" for row in right]
    rows = [msgspec.to_builtins(row) | {"source": source} for row, source in zip(right, known, strict=True)]
    return KnownAnswers(RowKind.TEXT, rows, len(texts) - len(right)), faults


def _look_at_first(path: Path) -> _Look | None:
    """None where the first row cannot be read: the reader of labelled rows says why."""
    try:
        with path.open("rb") as lines:
            return msgspec.json.decode(next((line for line in lines if line.strip()), b""), type=_Look)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read_frozen(path: Path) -> tuple[list[Text], list[str]]:
    rows: dict[str, Text] = {}
    faults: list[str] = []
    decode = msgspec.json.Decoder(Text).decode
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            faults.append(f"{path}:{number}: {error}")
            continue
        faults += [f"{path}:{number}: {fault}" for fault in row.faults()]
        if row.id in rows:
            faults.append(f"{path}:{number}: id {row.id!r} appears twice")
        rows[row.id] = row
    return list(rows.values()), faults


def _read_exported(path: Path) -> tuple[list[Text], list[str]]:
    rows, faults = read_texts(path)
    return msgspec.convert(rows, list[Text]), faults
