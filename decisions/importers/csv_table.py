"""Reckoner's own format as a table: one column for each field of POST /decisions.

`state.title` is the field `title` of the state, `feedback.verdict` the value of the metric `verdict`. Cells of `state`,
`options`, `action` and the like are JSON where they begin as an object or a list, else text. An empty cell is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from decisions.importers.jsonl import read_decision
from decisions.importers.reading import read_csv
from decisions.importers.records import Found, Reading, Record, Refused, from_text, read_each
from decisions.ingest.schemas import DecisionIn

STRUCTURED = {"state", "options", "action", "alternatives", "next_state"}
COUNTS = {"model_version", "step_number", "tokens_in", "tokens_out"}
NUMBERS = {"propensity", "temperature", "epsilon", "confidence", "latency_ms", "cost"}
FIELDS = {field.name for field in msgspec.structs.fields(DecisionIn)}
CORRECTION = "feedback.correction"


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    for file in files:
        yield from read_each(read_csv(file, reading), lambda record: read_row(record, reading))


def read_row(record: Record, reading: Reading) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    fields: dict[str, Any] = {}
    state: dict[str, Any] = {}
    feedback: list[dict[str, Any]] = []
    correction: Any = None
    for column, cell in record.value.items():
        if cell == "":
            continue
        head, _, rest = column.partition(".")
        if head == "state" and rest:
            state[rest] = cell
        elif column == CORRECTION:
            correction = _cell("action", cell)
        elif head == "feedback" and rest:
            feedback.append({"metric": rest, "value": _value(cell)})
        elif column in FIELDS:
            fields[column] = _cell(column, cell)
        else:
            raise Refused(column, "is not a column here; see docs/importing.md")
    if state:
        fields["state"] = {**state, **(fields["state"] if isinstance(fields.get("state"), dict) else {})}
    if correction is not None:
        verdict = next((entry for entry in feedback if entry["metric"] == "verdict"), None)
        if verdict is None:
            raise Refused(CORRECTION, "stands without feedback.verdict")
        verdict["correction"] = correction
    return read_decision({**fields, "feedback": feedback}, record.place, reading, record.size)


def _cell(column: str, cell: str) -> Any:
    if column in COUNTS | NUMBERS:
        try:
            return int(cell) if column in COUNTS else float(cell)
        except ValueError as error:
            raise Refused(column, f"{cell!r} is not a number") from error
    if column in STRUCTURED and cell.lstrip()[:1] in {"{", "["}:
        return from_text(cell)
    return cell


def _value(cell: str) -> Any:
    """A number or a truth value where the cell reads as one."""
    value = from_text(cell)
    return value if isinstance(value, bool | int | float) else cell
