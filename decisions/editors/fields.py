"""Fields of a form: what stands in them, how they are drawn, and what they say.

A field that was left as it was says what the agent said, to the last digit. A blank one says what was blank before,
else nothing (where that is allowed), else null (where that is).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from decisions.editors.editor import Control, Draft, Entered
from decisions.editors.parts import MISSING
from decisions.editors.schema import LONG_NOW, Field
from workspaces.errors import FieldFault, ReckonerError
from workspaces.http.parsing import check_body

WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
BROKEN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
MOST_DIGITS = 100
SHOWN = 5


def write_fields(fields: Sequence[Field]) -> Entered:
    """What stands in the fields at first: what the agent said."""
    entered: dict[str, Sequence[str]] = {}
    for field in fields:
        if field.kind == "group":
            entered |= write_fields(field.fields)
        else:
            entered[field.name] = _written(field)
    return entered


def draw_fields(fields: Sequence[Field], entered: Entered) -> tuple[Control, ...]:
    return tuple(_draw(field, entered) for field in fields)


def read_fields(fields: Sequence[Field], entered: Entered, before: Any) -> Draft:
    """The object that the fields say. `before` is the agent's, of which names without a field stay."""
    known = {field.label for field in fields}
    value = {name: one for name, one in before.items() if name not in known} if isinstance(before, dict) else {}
    faults: list[FieldFault] = []
    for field in fields:
        draft = read_field(field, entered)
        faults += draft.faults
        if draft.action is not MISSING:
            value[field.label] = draft.action
    return Draft(value, tuple(faults))


def read_field(field: Field, entered: Entered) -> Draft:
    """The value, which may be MISSING."""
    if field.kind == "group":
        return _read_group(field, entered)
    if field.name not in entered:
        return Draft(field.before)
    texts = [as_lines(text) for text in entered[field.name]]
    if field.kind == "ticks":
        return _read_ticks(field, texts)
    text = texts[0] if texts else ""
    if field.before not in (MISSING, None) and [text] == [as_lines(one) for one in _written(field)]:
        return Draft(field.before)
    if not text.strip():
        return Draft(_blank(field))
    return _READERS[field.kind](field, text)


def read_json(text: str) -> Any:
    """Raises ValueError, whose message says what is wrong."""
    try:
        check_body(text.encode())
        return msgspec.json.decode(text)
    except ReckonerError as error:
        raise ValueError(error.message.replace("The body", "the JSON")) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"is not JSON: {str(error).removeprefix('JSON is malformed: ')}") from error


def as_json(value: Any) -> str:
    """A value as a form holds it."""
    return json.dumps(value, ensure_ascii=False)


def as_lines(text: str) -> str:
    """With the line ends that everything but a browser's form has."""
    return text.replace("\r\n", "\n")


def _written(field: Field) -> list[str]:
    value = field.before
    if field.kind == "ticks":
        # The empty one says that the field was there, when nothing is ticked.
        return ["", *map(as_json, value)] if isinstance(value, list) else [""]
    if value is MISSING or value is None:
        return [""]
    if field.kind in {"text", "long"}:
        return [value]
    if field.kind == "lines":
        return ["\n".join(value)]
    return [json.dumps(value, ensure_ascii=False, indent=2) if field.kind == "json" else as_json(value)]


def _draw(field: Field, entered: Entered) -> Control:
    if field.kind == "group":
        inner = draw_fields(field.fields, entered)
        return Control(field.name, field.path, field.label, "group", field.required, controls=inner)
    values = tuple(as_lines(text) for text in entered.get(field.name, _written(field)))
    kind = field.kind
    if kind == "text" and any("\n" in text or len(text) > LONG_NOW for text in values):
        kind = "long"
    choices = tuple((as_json(value), label) for value, label in field.choices)
    if kind in {"pick", "ticks"}:
        known = {text for text, _ in choices}
        # What is not offered, or was entered otherwise, is shown as it is.
        choices += tuple((text, text) for text in dict.fromkeys(values) if text and text not in known)
    required = field.required and not field.nullable
    return Control(field.name, field.path, field.label, kind, required, values, choices)


def _blank(field: Field) -> Any:
    if field.before is not MISSING and field.before in (None, "", []):
        return field.before
    if not field.required:
        return MISSING
    return None if field.nullable else {"text": "", "long": "", "lines": []}.get(field.kind, MISSING)


def _read_group(field: Field, entered: Entered) -> Draft:
    """An object that was not there, and of which nothing was filled in, is not there."""
    filled = any(text.strip() for inner in field.fields for text in entered.get(inner.name, ()))
    if not filled and not field.required and not isinstance(field.before, dict):
        return Draft(field.before)
    return read_fields(field.fields, entered, field.before)


def _read_ticks(field: Field, texts: Sequence[str]) -> Draft:
    """In the order of the agent's, then in the order of the offer."""
    offered = {as_json(value): value for value, _ in field.choices}
    before = field.before if isinstance(field.before, list) else []
    known = {as_json(value): value for value in before} | offered
    ticked = [text for text in texts if text]
    if unknown := [text for text in ticked if text not in known]:
        return Draft(None, (_not_offered(field, unknown[0]),))
    values = [value for text, value in known.items() if text in ticked]
    if values or (field.required and not field.nullable):
        return Draft(values)
    return Draft(field.before if field.before in (MISSING, None, []) else [])


def _not_offered(field: Field, text: str) -> FieldFault:
    labels, said = [label for _, label in field.choices], text[:100].strip('"')
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return FieldFault(field.path, f"{said!r} is not one of the options", "one of " + ", ".join(labels[:SHOWN]) + more)


def _read_pick(field: Field, text: str) -> Draft:
    offered = {as_json(value): value for value, _ in field.choices}
    return Draft(offered[text]) if text in offered else Draft(None, (_not_offered(field, text),))


def _read_number(field: Field, text: str) -> Draft:
    given = text.strip()
    if WHOLE.fullmatch(given):
        return Draft(int(given))
    if len(given) <= MOST_DIGITS and BROKEN.fullmatch(given) and abs(value := float(given)) < float("inf"):
        return Draft(value)
    return Draft(None, (FieldFault(field.path, f"{given[:100]!r} is not a number", "a number such as 12 or 0.5"),))


def _read_lines(field: Field, text: str) -> Draft:
    return Draft([line.strip() for line in text.split("\n") if line.strip()])


def _read_json(field: Field, text: str) -> Draft:
    try:
        return Draft(read_json(text))
    except ValueError as error:
        return Draft(None, (FieldFault(field.path, str(error), "JSON"),))


_READERS: dict[str, Callable[[Field, str], Draft]] = {
    "text": lambda field, text: Draft(text),
    "long": lambda field, text: Draft(text),
    "number": _read_number,
    "pick": _read_pick,
    "lines": _read_lines,
    "json": _read_json,
}
