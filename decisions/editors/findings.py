"""A list of findings: a reviewer keeps or rejects each, edits it, and adds what is missing.

For structured actions whose schema has a list `findings` of objects, such as LIBRARIAN's. Other fields of the action
are edited as those of any structured one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.agents.prompts import as_text
from decisions.agents.references import resolve
from decisions.editors.editor import Case, Draft, Editor, Entered, Form, Row, place_faults
from decisions.editors.fields import draw_fields, read_fields, write_fields
from decisions.editors.parts import MISSING, Part, name_both, pair_up, take_apart, take_fields_apart
from decisions.editors.rows import agent_row, change_order, read_order, write_order
from decisions.editors.schema import Around, Field, is_object, make_fields
from workspaces.errors import FieldFault

FINDINGS = "findings"


def has_findings(schema: Mapping[str, Any]) -> bool:
    """Whether a schema's actions are lists of findings."""
    whole = resolve(schema, schema)
    return is_object(whole) and is_object(_item(whole, schema))


@dataclass(frozen=True, slots=True)
class _Finding:
    """`place` in what the agent found, from 0; None where it was added."""

    key: str
    place: int | None
    kept: bool
    fields: tuple[Field, ...]
    before: Any


class FindingsEditor(Editor):
    template = "decisions/editors/rows.html"
    noun = "finding"

    def say(self, action: Any) -> str:
        if not isinstance(action, dict) or not isinstance(action.get(FINDINGS), list):
            return as_text(action)
        found = action[FINDINGS]
        kinds = Counter(as_text(one["type"]) for one in found if isinstance(one, dict) and "type" in one)
        said = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds.items())
        number = f"{len(found)} finding{'' if len(found) == 1 else 's'}" if found else "no findings"
        return f"{number}: {said}" if said else number

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        if not isinstance(action, dict):
            return super().show(case, action, corrected=corrected)
        was = case.action if isinstance(case.action, dict) else {}
        pairs = pair_up(_list(was), _list(action)) if corrected else ((MISSING, one) for one in _list(action))
        parts = [
            take_apart(name_both(old, now, _kind), _rest(now), _rest(old), compared=corrected) for old, now in pairs
        ]
        if not _list(action):
            parts.append(Part("", "no findings"))
        others = {name: value for name, value in action.items() if name != FINDINGS}
        other_was = {name: value for name, value in was.items() if name != FINDINGS}
        return (*parts, *take_fields_apart(others, other_was, compared=corrected))

    def enter(self, case: Case) -> Entered:
        keys = range(len(_list(case.action)))
        entered = {**write_order(keys), **write_fields(_others(case))}
        for finding in _read(case, entered):
            entered |= write_fields(finding.fields)
        return entered

    def change(self, case: Case, entered: Entered, do: str) -> Entered:
        return change_order(entered, do, len(_list(case.action)))

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        findings = _read(case, entered)
        rows = tuple(
            Row(
                key=one.key,
                title=_kind(one.before) if one.place is not None else "New finding",
                place=None if one.place is None else one.place + 1,
                keep=keep_name(one.key),
                kept=one.kept,
                controls=draw_fields(one.fields, entered),
            )
            for one in findings
        )
        form = Form(draw_fields(_others(case), entered), rows, " ".join(one.key for one in findings))
        return place_faults(form, faults)

    def read(self, case: Case, entered: Entered) -> Draft:
        found: list[Any] = []
        faults: list[FieldFault] = []
        for finding in _read(case, entered):
            if finding.kept:
                draft = read_fields(finding.fields, entered, finding.before)
                found.append(draft.action if finding.fields else finding.before)
                faults += draft.faults
        rest = read_fields(_others(case), entered, case.action)
        return Draft({**rest.action, FINDINGS: found}, (*faults, *rest.faults))


def keep_name(key: str) -> str:
    return f"/{FINDINGS}/{key}/keep"


def _read(case: Case, entered: Entered) -> list[_Finding]:
    """The form's findings. Those that are kept have the places in the action that they will have."""
    agent, findings, place = _list(case.action), [], 0
    around = Around(case.schema, case.state)
    item = _item(resolve(case.schema, case.schema), case.schema)
    for key in read_order(entered, len(agent)):
        own = agent_row(key, agent)
        before = MISSING if own is None else agent[own]
        # A box that is not ticked is not sent: the field that comes with it says that there was one.
        kept = list(entered.get(keep_name(key), ("", "1"))) != [""]
        path = f"action.{FINDINGS}[{place}]" if kept else f"rejected.{key}"
        place += kept
        strange = before is not MISSING and not isinstance(before, dict)  # kept or rejected as it is
        fields = () if strange else make_fields(item, before, around, name=f"/{FINDINGS}/{key}", path=path)
        findings.append(_Finding(key, own, kept, fields, before))
    return findings


def _others(case: Case) -> tuple[Field, ...]:
    """The action's other fields."""
    whole = resolve(case.schema, case.schema)
    rest = {name: inner for name, inner in whole["properties"].items() if name != FINDINGS}
    around = Around(case.schema, case.state)
    return make_fields({**whole, "properties": rest}, case.action, around, name="", path="action")


def _item(whole: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    found = resolve(whole["properties"].get(FINDINGS, {}), root)
    return resolve(found.get("items", {}), root)


def _list(action: Any) -> list[Any]:
    found = action.get(FINDINGS) if isinstance(action, dict) else None
    return found if isinstance(found, list) else []


def _kind(finding: Any) -> str:
    return as_text(finding["type"]) if isinstance(finding, dict) and "type" in finding else "Finding"


def _rest(finding: Any) -> Any:
    """A finding without its kind, which is its name; whole where nothing else is in it."""
    if not isinstance(finding, dict):
        return finding
    return {name: value for name, value in finding.items() if name != "type"} or finding
