"""Tool calls: a reviewer edits each call's tool and its arguments, removes, adds, and orders them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decisions.agents.prompts import as_text
from decisions.editors.editor import Case, Draft, Editor, Entered, Form, Row, place_faults
from decisions.editors.fields import draw_fields, read_fields, write_fields
from decisions.editors.parts import MISSING, Part, name_both, pair_up, read_value, take_apart
from decisions.editors.rows import agent_row, change_order, read_order, write_order
from decisions.editors.schema import Field
from workspaces.errors import FieldFault


class ToolCallsEditor(Editor):
    template = "decisions/editors/rows.html"
    noun = "call"

    def say(self, action: Any) -> str:
        if not isinstance(action, list):
            return as_text(action)
        return ", ".join(map(_said, action)) or "no tool calls"

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        if not isinstance(action, list):
            return super().show(case, action, corrected=corrected)
        pairs = pair_up(_list(case.action), action) if corrected else ((MISSING, call) for call in action)
        parts = [
            take_apart(name_both(old, now, _name), _arguments(now), _arguments(old), compared=corrected)
            for old, now in pairs
        ]
        return tuple(parts) or (Part("", "no tool calls"),)

    def enter(self, case: Case) -> Entered:
        entered = write_order(range(len(_list(case.action))))
        for _, fields, _ in _read(case, entered):
            entered = {**entered, **write_fields(fields)}
        return entered

    def change(self, case: Case, entered: Entered, do: str) -> Entered:
        return change_order(entered, do, len(_list(case.action)))

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        calls, agent = _read(case, entered), _list(case.action)
        rows = []
        for key, fields, before in calls:
            own = agent_row(key, agent)
            title = _name(before) if own is not None else "New call"
            rows.append(Row(key, title, None if own is None else own + 1, controls=draw_fields(fields, entered)))
        return place_faults(Form(rows=tuple(rows), order=" ".join(key for key, *_ in calls)), faults)

    def read(self, case: Case, entered: Entered) -> Draft:
        drafts = [read_fields(fields, entered, before) for _, fields, before in _read(case, entered)]
        return Draft([draft.action for draft in drafts], tuple(fault for draft in drafts for fault in draft.faults))


def _read(case: Case, entered: Entered) -> list[tuple[str, tuple[Field, ...], Any]]:
    """The form's calls in their order: key, fields, and the agent's call or MISSING."""
    agent = _list(case.action)
    calls = []
    for place, key in enumerate(read_order(entered, len(agent))):
        own = agent_row(key, agent)
        call = agent[own] if own is not None and isinstance(agent[own], dict) else MISSING
        calls.append((key, _fields(case, key, place, call), call))
    return calls


def _fields(case: Case, key: str, place: int, call: Any) -> tuple[Field, ...]:
    known = call if call is not MISSING else {}
    tools = tuple((name, name) for name in case.options or ())
    name = Field(
        name=f"/calls/{key}/name",
        path=f"action[{place}].name",
        label="name",
        kind="pick" if tools else "text",
        before=known.get("name", MISSING),
        required=True,
        choices=tools,
    )
    arguments = Field(
        name=f"/calls/{key}/arguments",
        path=f"action[{place}].arguments",
        label="arguments",
        kind="json",
        before=known.get("arguments", {} if call is MISSING else MISSING),
        required=True,
    )
    return name, arguments


def _list(action: Any) -> list[Any]:
    return action if isinstance(action, list) else []


def _name(call: Any) -> str:
    return as_text(call["name"]) if isinstance(call, dict) and "name" in call else "Call"


def _arguments(call: Any) -> Any:
    return call["arguments"] if isinstance(call, dict) and "arguments" in call else call


def _said(call: Any) -> str:
    arguments = _arguments(call)
    if not isinstance(arguments, dict):
        return _name(call)
    return f"{_name(call)}({', '.join(f'{name}: {read_value(value)}' for name, value in arguments.items())})"
