"""Files of labelled rows: JSON lines {prompt, options, answer, id?, system?, group?}, with every fault and its line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from training.engine.rows.types import Slate
from training.imports.row_lines import BROKEN, read_row_lines

Filled = Annotated[str, Meta(min_length=1)]


class LabelledRow(msgspec.Struct, forbid_unknown_fields=True):
    """One line of the file. Without an id, the line's number is its id. `system` is the system prompt before the
    prompt. `group` names the cluster that a row belongs to (user, document, module), `slate` the ranking that it is an
    item of. The others are what rows of people's labels have besides (training.engine.rows.types.Labelled)."""

    prompt: Filled
    options: Annotated[list[Filled], Meta(min_length=2)]
    answer: Filled
    id: str = ""
    system: Filled | UnsetType = UNSET
    group: str | None = None
    slate: Slate | UnsetType = UNSET
    completion: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    label_id: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    classifier: str | UnsetType = UNSET


def read_rows(path: Path, name: str = "") -> tuple[list[LabelledRow], list[str]]:
    """Every row of the file and every fault as `name:line: reason`; the name is the path's unless another is given."""
    name = name or str(path)
    lines, faults = read_row_lines(path, name)
    rows: list[LabelledRow] = []
    seen: set[str] = set()
    for number, line in lines.items():
        try:
            row = msgspec.json.decode(line, type=LabelledRow)
        except BROKEN as error:
            faults.append(f"{name}:{number}: {error}")
            continue
        if not row.id:
            row.id = str(number)
        if row.answer not in row.options:
            faults.append(f"{name}:{number}: answer {row.answer!r} is not among the options")
        if row.slate is not UNSET:
            faults += [f"{name}:{number}: {fault}" for fault in row.slate.faults(row.options)]
        if row.id in seen:
            faults.append(f"{name}:{number}: id {row.id!r} appears twice")
        seen.add(row.id)
        rows.append(row)
    if not rows and not faults:
        faults.append(f"{name}: no rows")
    return rows, faults
