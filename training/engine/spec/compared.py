"""What of a structured action counts when two are compared: the fields that decide. Neither torch nor Django.

`confidence`, `reasoning` and what else explains an action or is written out decide nothing. Evaluations and suites of
texts, and shadows, compare so; choices among options leave such fields out by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from training.engine.spec.settings import Strict

ALWAYS = frozenset({"confidence", "reasoning"})
"""Fields at the top of an action that decide nothing, whatever the agent."""


class Compared(Strict):
    """`explains`: names of fields, at any depth, that do not count. `sets`: names of lists whose order means nothing,
    and in which an object of one field is the same as the value of it."""

    explains: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def find_decided(self, action: Any) -> Any:
        """An object's fields that decide, without null ones; any other value, and an object of which nothing decides,
        as it is."""
        if not isinstance(action, Mapping):
            return action
        return {name: value for name, value in self._part(action).items() if name not in ALWAYS} or action

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two actions decide the same."""
        return bool(self.find_decided(one) == self.find_decided(other))

    def _part(self, value: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: inner for name, inner in value.items() if name not in self.explains and inner is not None}
        return {name: self._value(name, inner) for name, inner in kept.items()}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._part(value)
        if not isinstance(value, list):
            return value
        found = [self._part(one) if isinstance(one, Mapping) else one for one in value]
        if name not in self.sets:
            return found
        found = [next(iter(one.values())) if isinstance(one, Mapping) and len(one) == 1 else one for one in found]
        by_text = {json.dumps(one, sort_keys=True): one for one in found}
        return [by_text[text] for text in sorted(by_text)]


PLAIN = Compared()
"""For actions of which only `confidence` and `reasoning` are known to decide nothing."""
