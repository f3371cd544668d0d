"""A choice: a reviewer picks another option, by its place among the decision's options. The buttons of the options are
its form."""

from __future__ import annotations

from collections.abc import Sequence

from decisions.editors.editor import Case, Draft, Editor, Entered, Form
from workspaces.errors import FieldFault

OPTION = "option"


class ChoiceEditor(Editor):
    def enter(self, case: Case) -> Entered:
        return {}

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        return Form(faults=tuple(faults))

    def read(self, case: Case, entered: Entered) -> Draft:
        given = (entered.get(OPTION) or [""])[0]
        options = case.options or ()
        if not (given.isascii() and given.isdecimal()) or int(given) >= len(options):
            return Draft(
                None, (FieldFault(OPTION, f"{given!r} is not one of the options", "an option's place, from 0"),)
            )
        return Draft(options[int(given)])
