"""Files of rows for a dataset: labelled rows, our own rows of each kind, what `export_training_data` and the API's
export wrote, and the forms of other programs (training.imports.foreign_rows)."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from training.engine.rows.types import Logged, Preference, Text
from training.engine.spec.methods import RowKind
from training.imports.exported import read_export
from training.imports.foreign_rows import find_form
from training.imports.labelled import read_rows
from training.imports.row_lines import BROKEN, as_object, find_first, read_row_lines
from training.imports.turn_rows import name_rows
from training.models import DatasetKind

PLACE = re.compile(r":(\d+): ")
MOST_WRITTEN = 256 * 1024 * 1024
"""Characters of all prompts that a file makes; turns of chats repeat what was said before them."""
OWN: Mapping[RowKind, type[Logged | Text | Preference]] = {
    RowKind.LOGGED: Logged,
    RowKind.TEXT: Text,
    RowKind.PREFERENCES: Preference,
}
"""Rows as the engine reads them and as `export_dataset` writes them."""
FIELDS: Mapping[RowKind, tuple[frozenset[str], frozenset[str]]] = {
    kind: (
        frozenset(one.name for one in msgspec.structs.fields(row_type) if one.required),
        frozenset(row_type.__struct_fields__),
    )
    for kind, row_type in OWN.items()
}
"""The fields that such a row must have, and all that it may have. Finding them takes as long as reading ten rows."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """`kind` of the dataset that they make: labelled rows, decisions with a reward, texts, or preference pairs.
    `refusals`: the decisions of an export that make none, each with its line and the reason. `total`: how many rows
    the file makes, where only the first were kept."""

    kind: DatasetKind = DatasetKind.LABELLED
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    total: int = 0


def is_labelled(first: Mapping[str, Any] | None) -> bool:
    """Whether a file with this first row is of labelled rows, of which one that cannot be read is said to be one."""
    if first is None:
        return True
    return ("options" in first and "action" not in first) or {"prompt", "answer"} <= first.keys()


def is_exported(lines: Mapping[int, bytes], first: Mapping[str, Any]) -> bool:
    """Whether a file is an export of decisions, or written like one: texts with a raw reward. `first` is its first row
    that can be read."""
    if _has_facts(first) or any(b'"metadata"' in line and _has_facts(as_object(line) or {}) for line in lines.values()):
        return True
    plain = isinstance(first.get("prompt"), str) and isinstance(first.get("completion"), str)
    valued = "messages" in first and "reward" in first
    return (plain or valued) and first.get("id") is None and not {"label", "kto_tag", "tools"} & first.keys()


def _has_facts(row: Mapping[str, Any]) -> bool:
    """Whether it says of which decision it is, or what it is to a model that chooses."""
    return bool({"rows", "metadata"} & row.keys() and {"completion", "messages"} & row.keys())


def read_row_file(path: Path, name: str = "", *, keep: int | None = None) -> tuple[RowFile, list[str]]:
    """The file, and every fault as `name:line: reason`; the name is the path's unless another is given. `keep`: how
    many rows, by default all; a row takes ten times the memory of its line where it is short."""
    lines, faults = read_row_lines(path, name)
    if faults:
        return RowFile(), faults
    first = find_first(lines)
    if first is None or is_labelled(first):
        labelled, faults = read_rows(path, name)
        total, rows = len(labelled), list[Any](labelled[:keep])
        del labelled
        for index, row in enumerate(rows):  # in place: a file of a million rows is not there twice
            rows[index] = msgspec.to_builtins(row)
        return RowFile(DatasetKind.LABELLED, rows, total=total), faults
    if is_exported(lines, first):
        exported, faults = read_export(path, name, keep=keep)
        return RowFile(DatasetKind(exported.kind), list(exported.rows), exported.refusals, exported.total), faults
    return _read_each(lines, name or str(path), keep)


def read_usable_rows(path: Path, name: str = "", *, keep: int | None = None) -> tuple[RowFile, list[str], list[str]]:
    """The rows without the lines that have faults, those faults, and the faults with which nothing can be read. `keep`
    as of `read_row_file`."""
    found, faults = read_row_file(path, name, keep=keep)
    lines, _ = read_row_lines(path, name)
    faulty = {int(match[1]) for fault in faults if (match := PLACE.match(fault.removeprefix(name or str(path))))}
    if len(faulty) < len({fault.split(": ")[0] for fault in faults}) or len(faulty) == len(lines):
        return found, [], faults  # a fault of the whole file, or of every line
    if not faults:
        return found, [], []
    with tempfile.TemporaryDirectory(prefix="reckoner-rows-") as folder:
        usable = Path(folder) / "rows.jsonl"
        # In their own lines, by which rows without an id are named.
        kept = [b"" if n in faulty else lines.get(n, b"").replace(b"\n", b" ") for n in range(1, max(lines) + 1)]
        usable.write_bytes(b"\n".join(kept))
        found, others = read_row_file(usable, name or str(path), keep=keep)
    return found, faults, others


def _read_each(lines: Mapping[int, bytes], name: str, keep: int | None) -> tuple[RowFile, list[str]]:
    """Each line by its own form; all must make rows of one kind. Rows without an id are named by their line, those of
    one line by their turn, too, and belong together."""
    rows: list[Mapping[str, Any]] = []
    kinds: Counter[RowKind] = Counter()
    faults: list[str] = []
    seen: set[str] = set()
    total = written = 0
    for number, line in lines.items():
        try:
            kind, made = _read_line(msgspec.json.decode(line), number)
            if kinds and kind not in kinds:
                raise ValueError(f"makes rows of {kind}, but the rows before it are of {next(iter(kinds))}")
            if own := next((row["id"] for row in made if row["id"] in seen), None):
                raise ValueError(f"id {own!r} appears twice")
        except (ValueError, *BROKEN) as error:
            faults.append(f"{name}:{number}: {error}")
            continue
        written += sum(len(row["prompt"]) for row in made)
        if written > MOST_WRITTEN:
            faults.append(
                f"{name}:{number}: the prompts up to here have more than {MOST_WRITTEN:,} characters; cut the file"
            )
            break
        kinds[kind] += 1
        seen.update(row["id"] for row in made)
        total += len(made)
        if keep is None or len(rows) < keep:
            rows += made
    return RowFile(DatasetKind(next(iter(kinds), RowKind.TEXT)), rows, total=total), faults


def _read_line(line: Any, number: int) -> tuple[RowKind, list[dict[str, Any]]]:
    """Raises ValueError, of which msgspec's errors are."""
    if not isinstance(line, dict):
        raise ValueError("is not a JSON object")
    own = line.get("id")
    for kind, row_type in OWN.items():
        required, known = FIELDS[kind]
        if isinstance(own, str) and required <= line.keys() <= known and _is_plain(line):
            _refuse_faults(msgspec.convert(line, row_type).faults())
            return kind, [line]
    form = find_form(line)
    try:
        made = form.read(line)
        row_id = str(own) if isinstance(own, str | int) and own != "" else str(number)
        made = name_rows(made, row_id)
        row_type = OWN[form.kind]
        for row in made:
            _refuse_faults(msgspec.convert(row, row_type).faults())
    except ValueError as error:
        raise ValueError(f"{form.name}: {error}") from error
    return form.kind, made


def _is_plain(line: Mapping[str, Any]) -> bool:
    """Whether its texts are texts; TRL's may be messages."""
    return all(isinstance(line.get(name, ""), str) for name in ("prompt", "completion", "chosen", "rejected"))


def _refuse_faults(faults: Any) -> None:
    if fault := next(iter(faults), None):
        raise ValueError(fault)
