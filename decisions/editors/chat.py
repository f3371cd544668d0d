"""What an agent does in a chat: a reviewer edits what it wrote, and sees by words what that changes; or its tool calls,
each one's tool and arguments, removes, adds, and orders them. Calls correct a text where there are any, and a text
corrects calls where none is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decisions.agents.actions import Schema, check_schema
from decisions.agents.chat_actions import without_ids
from decisions.agents.prompts import as_text
from decisions.editors.editor import Case, Control, Draft, Editor, Entered, Form, Row, place_faults
from decisions.editors.fields import as_lines, draw_fields, read_fields, write_fields
from decisions.editors.parts import MISSING, Part, compare_words, name_both, pair_up, read_value, take_apart
from decisions.editors.rows import agent_row, change_order, read_order, write_order
from decisions.editors.schema import Field
from workspaces.errors import FieldFault

TEXT = "/text"


class ChatEditor(Editor):
    template = "decisions/editors/chat.html"
    noun = "call"

    def say(self, action: Any) -> str:
        if not isinstance(action, list):
            return as_text(action)
        return ", ".join(map(_said, action)) or "no tool calls"

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        if not corrected:
            return _show_calls(action) if isinstance(action, list) else super().show(case, action)
        if isinstance(action, str) and isinstance(case.action, str):
            return (Part("", action, "changed", runs=compare_words(case.action, action)),)
        if isinstance(action, str) == isinstance(case.action, str):
            return _compare_calls(_list(without_ids(case.action)), _list(without_ids(action)))
        before = _list(case.action) or [case.action]
        removed = tuple(take_apart(_title(one), MISSING, _arguments(one), compared=True) for one in before)
        now = _list(action) or [action]
        return removed + tuple(take_apart(_title(one), _arguments(one), MISSING, compared=True) for one in now)

    def find_faults(self, case: Case, action: Any) -> list[FieldFault]:
        faults = super().find_faults(case, action)
        return faults if faults or not isinstance(action, list) else _find_argument_faults(case, action)

    def enter(self, case: Case) -> Entered:
        entered = {TEXT: [_text(case.action)], **write_order(range(len(_list(case.action))))}
        for _, fields, _ in _read(case, entered):
            entered |= write_fields(fields)
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
        before, text = _text(case.action), _read_text(case, entered)
        control = Control(TEXT, "action", "Right text", "long", required=True, values=(text,))
        runs = () if rows else compare_words(before, text)
        form = Form((control,), tuple(rows), order=" ".join(key for key, *_ in calls), runs=runs)
        return place_faults(form, faults)

    def read(self, case: Case, entered: Entered) -> Draft:
        text = _read_text(case, entered)
        if calls := _read(case, entered):
            drafts = [read_fields(fields, entered, before) for _, fields, before in calls]
            faults = [fault for one in drafts for fault in one.faults]
            if text.strip() and text != _text(case.action):
                faults.append(FieldFault("action", "was written, and there are tool calls, too", "one of both"))
            return Draft([one.action for one in drafts], tuple(faults))
        return Draft([] if isinstance(case.action, list) and not text.strip() else text)


def _find_argument_faults(case: Case, calls: Sequence[Any]) -> list[FieldFault]:
    """Finds arguments that their tool does not take. A client's schema that nothing can be checked by refuses
    nothing."""
    known = {tool["name"]: tool["parameters"] for tool in case.tools}
    return [
        fault
        for index, call in enumerate(calls)
        if (schema := known.get(call["name"])) is not None and check_schema(schema) is None
        for fault in Schema(schema, f"action[{index}].arguments").faults(call["arguments"])
    ]


def _show_calls(calls: Sequence[Any]) -> tuple[Part, ...]:
    parts = (take_apart(_name(call), _arguments(call)) for call in calls)
    return tuple(parts) or (Part("", "no tool calls"),)


def _compare_calls(was: Sequence[Any], now: Sequence[Any]) -> tuple[Part, ...]:
    parts = (
        take_apart(name_both(old, new, _name), _arguments(new), _arguments(old), compared=True)
        for old, new in pair_up(was, now)
    )
    return tuple(parts) or (Part("", "no tool calls"),)


def _read_text(case: Case, entered: Entered) -> str:
    before = _text(case.action)
    text = as_lines((entered.get(TEXT) or [before])[0])
    return before if text == as_lines(before) else text


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


def _text(action: Any) -> str:
    return "" if isinstance(action, list) else as_text(action)


def _title(one: Any) -> str:
    return "" if isinstance(one, str) else _name(one)


def _name(call: Any) -> str:
    return as_text(call["name"]) if isinstance(call, dict) and "name" in call else "Call"


def _arguments(call: Any) -> Any:
    return call["arguments"] if isinstance(call, dict) and "arguments" in call else call


def _said(call: Any) -> str:
    arguments = _arguments(call)
    if not isinstance(arguments, dict):
        return _name(call)
    return f"{_name(call)}({', '.join(f'{name}: {read_value(value)}' for name, value in arguments.items())})"
