"""Files of labelled rows: JSON lines {id, prompt, options, answer, system?, group?}, with every fault and its line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from training.engine.rows.types import Slate

Filled = Annotated[str, Meta(min_length=1)]


class LabelledRow(msgspec.Struct, forbid_unknown_fields=True):
    """One line of the file. `system` is the system prompt before the prompt. `group` names the cluster that a row
    belongs to (user, document, module), `slate` the ranking that it is an item of."""

    id: Filled
    prompt: Filled
    options: Annotated[list[Filled], Meta(min_length=2)]
    answer: Filled
    system: Filled | UnsetType = UNSET
    group: str | None = None
    slate: Slate | UnsetType = UNSET


def read_rows(path: Path, name: str = "") -> tuple[list[LabelledRow], list[str]]:
    """Every row of the file and every fault as `name:line: reason`; the name is the path's unless another is given."""
    name = name or str(path)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        return [], [f"{name}: {error.strerror}"]
    rows: list[LabelledRow] = []
    faults: list[str] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=LabelledRow)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            faults.append(f"{name}:{number}: {error}")
            continue
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
