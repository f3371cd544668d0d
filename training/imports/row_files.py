"""Files of rows for a dataset: labelled rows, or what `export_training_data` and the API's export wrote."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from training.imports.exported import read_export
from training.imports.labelled import read_rows
from training.models import DatasetKind


@dataclass(frozen=True, slots=True)
class RowFile:
    """`kind` of the dataset that they make: labelled rows, or of an export decisions with a reward or texts.
    `refusals`: the decisions of an export that make none, each with its line and the reason."""

    kind: DatasetKind = DatasetKind.LABELLED
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class FirstLine(msgspec.Struct):
    """What tells the kinds of lines from each other."""

    id: Any = None
    completion: Any = None
    messages: Any = None

    @property
    def is_exported(self) -> bool:
        return self.id is None and (self.completion is not None or self.messages is not None)


def read_first_line(path: Path) -> FirstLine | None:
    """The first one that can be read, so that a broken one before it does not make an export labelled rows. None where
    none can: the reader of labelled rows says why."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    return msgspec.json.decode(line, type=FirstLine)
    except OSError:
        pass
    return None


def read_row_file(path: Path, name: str = "") -> tuple[RowFile, list[str]]:
    """The file, and every fault as `name:line: reason`; the name is the path's unless another is given."""
    first = read_first_line(path)
    if first is None or not first.is_exported:
        labelled, faults = read_rows(path, name)
        return RowFile(DatasetKind.LABELLED, [msgspec.to_builtins(row) for row in labelled]), faults
    exported, faults = read_export(path, name)
    return RowFile(DatasetKind(exported.kind), list(exported.rows), exported.refusals), faults
