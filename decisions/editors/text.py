"""Free text: a reviewer edits what the agent wrote, and sees by words what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decisions.agents.prompts import as_text
from decisions.editors.editor import Case, Control, Draft, Editor, Entered, Form, place_faults
from decisions.editors.fields import as_lines
from decisions.editors.parts import Part, compare_words
from workspaces.errors import FieldFault

TEXT = "/text"


class TextEditor(Editor):
    template = "decisions/editors/text.html"

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        if corrected and isinstance(action, str) and isinstance(case.action, str):
            return (Part("", action, "changed", runs=compare_words(case.action, action)),)
        return super().show(case, action, corrected=corrected)

    def enter(self, case: Case) -> Entered:
        return {TEXT: [as_text(case.action)]}

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        text = self.read(case, entered).action
        control = Control(TEXT, "action", "Right text", "long", required=True, values=(text,))
        return place_faults(Form((control,), runs=compare_words(as_text(case.action), text)), faults)

    def read(self, case: Case, entered: Entered) -> Draft:
        before = as_text(case.action)
        text = (entered.get(TEXT) or [before])[0]
        return Draft(before if as_lines(text) == as_lines(before) else as_lines(text))
