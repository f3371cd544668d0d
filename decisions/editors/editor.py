"""What an editor is, and what passes between it and its caller.

A form is names and texts, as a browser sends it. An editor makes them of an action (`enter`), changes them by a button
of the form (`change`), draws them (`draw`) and reads a correction from them (`read`). So a form can be drawn again from
what was entered, with its faults, and works without scripts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from decisions.agents.actions import Space
from decisions.agents.prompts import as_text
from decisions.editors.parts import Part, Run, take_apart
from workspaces.errors import FieldFault

Entered = Mapping[str, Sequence[str]]
"""What stands in a form, by the names of its fields. The editor's own begin with a slash."""


@dataclass(frozen=True, slots=True)
class Case:
    """A decision as its editor needs it: the action that the agent took, and what it could have been. `tools`: those of
    a chat that say what arguments they take, as `decisions.agents.forms.tools_of` has them."""

    space: Space
    action: Any
    options: Sequence[str] | None
    state: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] = ()

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.space.action.plain if self.space.action is not None else {}


@dataclass(frozen=True, slots=True)
class Control:
    """One field of a form as it is drawn. kind: text, long, number, pick, ticks, lines, json or group. `values` are
    texts; `choices` pairs of a text and its label. `path` is its place in the action, as faults name it."""

    name: str
    path: str
    label: str
    kind: str
    required: bool = False
    values: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    faults: tuple[FieldFault, ...] = ()
    controls: tuple[Control, ...] = ()

    @property
    def key(self) -> str:
        """For the id of its element."""
        return re.sub(r"[^A-Za-z0-9]", lambda found: f"-{ord(found[0]):x}-", self.name)

    @property
    def told(self) -> str:
        """What is written below it: its fault, or how it is filled in."""
        return "fault" if self.faults else "help" if self.kind in {"json", "lines"} else ""

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""


@dataclass(frozen=True, slots=True)
class Row:
    """One of a list that can be changed. `place` is its place in what the agent did, from 1, or None where it is new.
    `keep` names the field by which it is rejected, where it can be; `kept` is what that says."""

    key: str
    title: str
    place: int | None = None
    keep: str = ""
    kept: bool = True
    controls: tuple[Control, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """What the template of an editor draws. `runs`: what the form changes in a text. `faults` belong to no field."""

    controls: tuple[Control, ...] = ()
    rows: tuple[Row, ...] = ()
    order: str = ""
    runs: tuple[Run, ...] = ()
    faults: tuple[FieldFault, ...] = ()

    @property
    def fields(self) -> Iterable[Control]:
        """Every control without parts."""
        return (one for whole in (self.controls, *(row.controls for row in self.rows)) for one in _leaves(whole))


@dataclass(frozen=True, slots=True)
class Draft:
    """What a form says: an action, or the faults of what was entered."""

    action: Any
    faults: tuple[FieldFault, ...] = ()


class Editor(ABC):
    """The editor of one kind of action. `template` draws its form; `noun` is what its rows are."""

    template = ""
    noun = ""

    def say(self, action: Any) -> str:
        """In one line; of any value, since what was erased has another shape."""
        return as_text(action)

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        """`corrected`: as a correction, with what it changed in the agent's action."""
        return (take_apart("", action, case.action, compared=corrected),)

    @abstractmethod
    def enter(self, case: Case) -> Entered:
        """A form that says what the agent did."""

    def change(self, case: Case, entered: Entered, do: str) -> Entered:
        """What a button of the form makes of it: `up:2`, `down:2`, `remove:2`, `add`. Anything else changes nothing."""
        return entered

    @abstractmethod
    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        """`faults` may be of any place in the action."""

    @abstractmethod
    def read(self, case: Case, entered: Entered) -> Draft:
        """The action that the form says."""

    def find_faults(self, case: Case, action: Any) -> list[FieldFault]:
        """What keeps `action` from being a correction, from wherever it comes."""
        return case.space.action_faults(action, options=case.options, state=case.state)


def place_faults(form: Form, faults: Sequence[FieldFault]) -> Form:
    """Each fault at the control whose place holds it, the deepest; the others at the form's head."""
    paths = sorted((control.path for control in form.fields), key=len, reverse=True)
    found: dict[str, list[FieldFault]] = {}
    rest = []
    for fault in faults:
        place = next((path for path in paths if _holds(path, fault.field)), None)
        if place is None:
            rest.append(fault)
        else:
            found.setdefault(place, []).append(fault)
    return replace(
        form,
        controls=_marked(form.controls, found),
        rows=tuple(replace(row, controls=_marked(row.controls, found)) for row in form.rows),
        faults=tuple(rest),
    )


def _holds(path: str, field: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


def _marked(controls: Sequence[Control], found: Mapping[str, list[FieldFault]]) -> tuple[Control, ...]:
    return tuple(
        replace(one, faults=tuple(found.get(one.path, ())), controls=_marked(one.controls, found)) for one in controls
    )


def _leaves(controls: Iterable[Control]) -> Iterable[Control]:
    for one in controls:
        if one.controls:
            yield from _leaves(one.controls)
        else:
            yield one
