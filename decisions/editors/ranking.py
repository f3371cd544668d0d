"""A ranking: a reviewer puts the options into another order. The correction is the whole order, of everything that was
offered, also where the agent ranked only a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from decisions.agents.prompts import as_text
from decisions.editors.editor import Case, Draft, Editor, Entered, Form, Row
from decisions.editors.parts import Part
from decisions.editors.rows import ORDER, change_order, read_order, write_order
from workspaces.errors import FieldFault


class RankingEditor(Editor):
    template = "decisions/editors/ranking.html"
    noun = "option"

    def say(self, action: Any) -> str:
        return " › ".join(map(as_text, action)) if isinstance(action, list) else as_text(action)

    def show(self, case: Case, action: Any, *, corrected: bool = False) -> tuple[Part, ...]:
        """Numbered; of a correction, with the place that the agent gave."""
        if not isinstance(action, list):
            return super().show(case, action)
        before = {as_text(one): str(place) for place, one in enumerate(_list(case.action), start=1)}
        parts = []
        for number, one in enumerate(map(as_text, action), start=1):
            place, old = str(number), before.get(one, "not ranked")
            moved = corrected and old != place
            parts.append(Part(place, one, says=f"was {old}" if moved else ""))
        return tuple(parts)

    def enter(self, case: Case) -> Entered:
        return write_order(range(len(_shown(case))))

    def change(self, case: Case, entered: Entered, do: str) -> Entered:
        if not do.startswith(("up:", "down:")):
            return entered
        return change_order(entered, do, len(_shown(case)))

    def draw(self, case: Case, entered: Entered, faults: Sequence[FieldFault] = ()) -> Form:
        shown, ranked = _shown(case), len(_list(case.action))
        keys = [key for key in read_order(entered, len(shown)) if int(key) < len(shown)]
        rows = (Row(key, as_text(shown[int(key)]), int(key) + 1 if int(key) < ranked else None) for key in keys)
        return Form(rows=tuple(rows), order=" ".join(keys), faults=tuple(faults))

    def read(self, case: Case, entered: Entered) -> Draft:
        shown = _shown(case)
        given = entered[ORDER][0].split() if entered.get(ORDER) else []
        known = {str(place) for place in range(len(shown))}
        if strange := [key for key, count in Counter(given).items() if key not in known or count > 1]:
            reason = f"{strange[0][:20]!r} was not shown, or is repeated"
            return Draft(None, (FieldFault("action", reason, "each option once"),))
        return Draft([shown[int(key)] for key in read_order(entered, len(shown))])

    def find_faults(self, case: Case, action: Any) -> list[FieldFault]:
        if faults := super().find_faults(case, action):
            return faults
        if action == _shown(case):
            return [FieldFault("action", "is the chosen action", "another order, or confirm")]
        ranked = set(action)
        if not (missing := [option for option in _shown(case) if option not in ranked]):
            return []
        named = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        return [FieldFault("action", f"lacks {named}", "an order of all options that were offered")]


def _list(action: Any) -> list[Any]:
    return action if isinstance(action, list) else []


def _shown(case: Case) -> list[str]:
    """What the agent ranked, in its order, then what it left out."""
    return list(dict.fromkeys([*_list(case.action), *(case.options or ())]))
