"""Forms that are a list of rows: their order stands in one field, as the rows' keys in a line.

A key below the number of the agent's own rows is the place of one of them; the others were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from decisions.editors.editor import Entered

ORDER = "/order"
MOST_ROWS = 1_000
"""Added ones among them. What a browser may send has a limit of its own."""


def write_order(keys: Iterable[str | int]) -> Entered:
    return {ORDER: [" ".join(map(str, keys))]}


def read_order(entered: Entered, count: int) -> list[str]:
    """The keys in their order, each once; of a form that does not say, the agent's `count` rows."""
    if ORDER not in entered:
        return [str(place) for place in range(count)]
    given = entered[ORDER][0].split() if entered[ORDER] else []
    known = dict.fromkeys(key for key in given if key.isascii() and key.isdecimal() and len(key) <= 5)
    return list(known)[: max(MOST_ROWS, count)]


def change_order(entered: Entered, do: str, count: int) -> Entered:
    """`up:2`, `down:2` and `remove:2` name a key; `add` adds one at the end."""
    keys = read_order(entered, count)
    what, _, key = do.partition(":")
    if what == "add" and len(keys) < MOST_ROWS:
        keys.append(str(max([count - 1, *map(int, keys)]) + 1))
    elif key in keys:
        at = keys.index(key)
        keys.remove(key)
        if what != "remove":
            keys.insert(max(0, at + {"up": -1, "down": 1}.get(what, 0)), key)
    return {**entered, **write_order(keys)}


def agent_row(key: str, rows: Sequence[object]) -> int | None:
    """The place of the row in what the agent did; None for one that was added."""
    return int(key) if int(key) < len(rows) else None
