"""Reads a file of labelled texts: CSV, JSON lines or JSON. PURE.

All faults of a file are reported together, before anything is written.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from training.rows.labelled_texts import Example

FEWEST_LABELS, MOST_LABELS = 2, 200
FEWEST_ROWS = 200
LONGEST_TEXT = 20_000
LARGEST_FILE = 512 << 20
SHOWN = 8
FORMATS = ("csv", "jsonl", "json")


@dataclass(frozen=True, slots=True)
class Source:
    """What a file holds once it is cleaned. `labels` are sorted; the other numbers say what was left out.

    An example's id says where it stood in the file: `row-17` is the 17th record, counted from 1.

    `unusable`: records without a text or without a label. `repeated`: the text stood before, with the same label;
    `contradicted`: with another label, and the first one is kept.
    """

    name: str
    digest: str
    examples: tuple[Example, ...]
    labels: tuple[str, ...]
    unusable: int
    repeated: int
    contradicted: int


class SourceError(ValueError):
    """The file cannot be rehearsed on. `faults` are whole sentences, all that were found."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


def read_source(path: Path, *, text_field: str, label_field: str) -> Source:
    """Raises SourceError. The format follows from the file's ending, `.csv`, `.jsonl` (or `.ndjson`), `.json`."""
    records = _read_records(path)
    _check_fields(path, records, text_field, label_field)
    examples: list[Example] = []
    label_of: dict[str, str] = {}
    faults: list[str] = []
    unusable = repeated = contradicted = 0
    for number, record in enumerate(records, start=1):
        try:
            text, label = _plain(record.get(text_field), text_field), _plain(record.get(label_field), label_field)
        except ValueError as error:
            faults.append(f"{path.name}: record {number}: {error}")
            continue
        if not text or not label:
            unusable += 1
        elif text in label_of:
            repeated += label_of[text] == label
            contradicted += label_of[text] != label
        else:
            label_of[text] = label
            examples.append(Example(f"row-{number}", text[:LONGEST_TEXT], label))
    if faults:
        raise SourceError(_shortened(faults))
    counts = Counter(example.label for example in examples)
    faults = list(_label_faults(path.name, label_field, counts, len(examples)))
    if faults:
        raise SourceError(faults)
    digest = hashlib.sha256(msgspec.json.encode([(example.text, example.label) for example in examples])).hexdigest()
    return Source(path.name, digest, tuple(examples), tuple(sorted(counts)), unusable, repeated, contradicted)


def _read_records(path: Path) -> list[Mapping[str, Any]]:
    kind = path.suffix.lower().lstrip(".").replace("ndjson", "jsonl")
    if kind not in FORMATS:
        raise SourceError([f"{path.name}: the ending {path.suffix!r} is unknown; give .csv, .jsonl or .json"])
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SourceError([f"{path.name}: larger than {LARGEST_FILE >> 20} MiB; give a sample of it"])
        content = path.read_bytes()
    except OSError as error:
        raise SourceError([f"{path}: {error.strerror or error}"]) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError([f"{path.name}: not UTF-8 at byte {error.start}"]) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise SourceError([f"{path.name}:{line}: contains a NUL character, which is not allowed"])
    records = {"csv": _read_csv, "jsonl": _read_lines, "json": _read_json}[kind](path.name, text)
    if not records:
        raise SourceError([f"{path.name}: holds no records"])
    return records


def _read_csv(name: str, text: str) -> list[Mapping[str, Any]]:
    """The first line names the columns; comma, semicolon or tab between them."""
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    csv.field_size_limit(LARGEST_FILE)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return list(reader)
    except csv.Error as error:
        raise SourceError([f"{name}:{reader.line_num}: {error}"]) from error


def _read_lines(name: str, text: str) -> list[Mapping[str, Any]]:
    records: list[Mapping[str, Any]] = []
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(_object(json.loads(line)))
            except (ValueError, RecursionError) as error:
                faults.append(f"{name}:{number}: {error or 'nested too deeply'}")
    if faults:
        raise SourceError(_shortened(faults))
    return records


def _read_json(name: str, text: str) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError([f"{name}: {error or 'nested too deeply'}"]) from error
    if not isinstance(found, list):
        raise SourceError([f"{name}: holds {_named(found)} but needs a list of objects: [{{…}}, {{…}}]"])
    faults: list[str] = []
    records: list[Mapping[str, Any]] = []
    for number, record in enumerate(found, start=1):
        try:
            records.append(_object(record))
        except ValueError as error:
            faults.append(f"{name}: record {number}: {error}")
    if faults:
        raise SourceError(_shortened(faults))
    return records


def _object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{_named(found)} instead of an object")
    return found


def _named(found: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(found), "a number")


def _check_fields(path: Path, records: Sequence[Mapping[str, Any]], text_field: str, label_field: str) -> None:
    """A field that is in some records only is fine; one that is in none is a misspelling."""
    known = dict.fromkeys(name for record in records for name in record if name is not None)
    faults = [
        f"{path.name}: no record has the {what} field {field!r}; there are {_listed(list(known))}"
        for what, field in (("text", text_field), ("label", label_field))
        if field not in known
    ]
    if text_field == label_field:
        faults.append(f"{path.name}: {text_field!r} is named as text and as label; they must differ")
    if faults:
        raise SourceError(faults)


def _plain(value: Any, field: str) -> str:
    """The value as trimmed text; a number or a truth value counts as its text. Raises ValueError."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value).strip()
    raise ValueError(f"{field} is {_named(value)} but needs a text")


def _label_faults(name: str, field: str, counts: Counter[str], rows: int) -> Iterator[str]:
    if len(counts) < FEWEST_LABELS:
        only = f"{next(iter(counts))!r} alone" if counts else "none"
        yield f"{name}: {field!r} holds {only}; at least {FEWEST_LABELS} labels are needed"
    if len(counts) > MOST_LABELS:
        yield f"{name}: {field!r} holds {len(counts)} labels, but at most {MOST_LABELS} are allowed"
    single = sorted(label for label, count in counts.items() if count == 1)
    if single and len(counts) <= MOST_LABELS:
        yield (
            f"{name}: {len(single)} {'label has' if len(single) == 1 else 'labels have'} one example only: "
            f"{_listed(single)}; each label needs at least two"
        )
    if rows < FEWEST_ROWS:
        yield f"{name}: {rows} usable records; a rehearsal needs at least {FEWEST_ROWS} to hold some out"


def _listed(names: Sequence[str]) -> str:
    left = len(names) - SHOWN
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {left} more" if left > 0 else "")


def _shortened(faults: list[str]) -> list[str]:
    left = len(faults) - SHOWN
    return faults[:SHOWN] + ([f"and {left} more"] if left > 0 else [])
