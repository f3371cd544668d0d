"""How much work it may be to check a value against a schema, and to say what is wrong with it. PURE.

The library copies the value into every error and every alternative's error while it holds the interpreter, so that a
value of 200 KB and 500 alternatives would take seconds and a gigabyte. `decisions.agents.actions` asks before each.
"""

from __future__ import annotations

import threading
import time
from typing import Any

MOST_WORK = 20_000_000
"""Parts of a value times subschemas that see them: about a second."""
MOST_EXPLAINED = 100_000
"""The same where the faults are described: about a second, and no more in each second of a process."""
TEXT_OF_ONE_PART = 100


def count_parts(value: Any) -> int:
    """Numbers, lists, fields and pieces of text in a value of JSON."""
    parts, rest = 0, [value]
    while rest:
        node = rest.pop()
        parts += 1
        if isinstance(node, str):
            parts += len(node) // TEXT_OF_ONE_PART
        elif isinstance(node, list):
            rest += node
        elif isinstance(node, dict):
            parts += sum(1 + len(name) // TEXT_OF_ONE_PART for name in node)
            rest += node.values()
    return parts


class Allowance:
    """What a process may spend on explanations in a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left, self._since = MOST_EXPLAINED, time.monotonic()

    def take(self, work: int) -> bool:
        with self._lock:
            if time.monotonic() - self._since >= 1:
                self._left, self._since = MOST_EXPLAINED, time.monotonic()
            if work > self._left:
                return False
            self._left -= work
            return True
