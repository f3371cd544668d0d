"""A structured action: a reviewer fills in a form made from the JSON schema of the action space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decisions.agents.prompts import as_text
from decisions.agents.references import resolve
from decisions.editors.editor import Case, Draft, Editor, Entered, Form, place_faults
from decisions.editors.fields import draw_fields, read_field, read_fields, write_fields
from decisions.editors.parts import MISSING, Part, read_value, take_fields_apart
from decisions.editors.schema import Around, Field, is_object, make_field, make_fields
from workspaces.errors import FieldFault

MOST_SAID = 60
"""Characters of a value that are said in a line."""


class StructuredEditor(Editor):
    template = "decisions/editors/structured.html"

    def say(self, action: Any) -> str:
        if not isinstance(action, dict) or not action:
            return as_text(action)
        said = ((name, value) for name, value in action.items() if value is not None)
        return ", ".join(f"{name} {_short(read_value(value))}" for name, value in said)

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        if not isinstance(action, dict):
            return super().show(case, action, corrected=corrected)
        was = case.action if isinstance(case.action, dict) else {}
        order = [field.label for field in _fields(case)]  # the database keeps none
        value = {name: action[name] for name in order if name in action} | action
        return take_fields_apart(value, was, compared=corrected) or (Part("", "no fields"),)

    def enter(self, case: Case) -> Entered:
        return write_fields(_fields(case))

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        return place_faults(Form(draw_fields(_fields(case), entered)), faults)

    def read(self, case: Case, entered: Entered) -> Draft:
        fields = _fields(case)
        if is_object(_schema(case)):
            return read_fields(fields, entered, case.action)
        draft = read_field(fields[0], entered)
        if draft.action is MISSING:
            return Draft(None, (FieldFault("action", "is missing", "JSON"),))
        return draft


def _short(text: str) -> str:
    return text if len(text) <= MOST_SAID else text[: MOST_SAID - 1] + "…"


def _schema(case: Case) -> Mapping[str, Any]:
    return resolve(case.schema, case.schema)


def _fields(case: Case) -> tuple[Field, ...]:
    """Of a schema that is no object, one field for the whole action."""
    around = Around(case.schema, case.state)
    if is_object(_schema(case)):
        return make_fields(_schema(case), case.action, around, name="", path="action")
    before = MISSING if case.action is None else case.action
    return (make_field(case.schema, before, around, name="/", path="action", label="Action", required=True, depth=1),)
