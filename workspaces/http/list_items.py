"""Lists of which one item is faulty: each item by itself, so that the others are kept. PURE.

A list is usually decoded in one go (workspaces.http.parsing). Only where that does not work is it cut into the bytes of
its items, which each are checked and decoded then.
"""

from __future__ import annotations

import re

from workspaces.errors import InvalidInput

STRING = rb'"(?:[^"\\]++|\\.)*+"'
NEXT_OUTER = re.compile(rb'(?:[^"\[\]{},]++|' + STRING + rb")*+([\[\]{},])", re.DOTALL)
NEXT_INNER = re.compile(rb'(?:[^"\[\]{}]++|' + STRING + rb")*+([\[\]{}])", re.DOTALL)
"""Up to the next bracket outside of strings, or between items the next comma."""
BLANK = b" \t\r\n"


class FaultyList(bytes):
    """A body that begins as a list, and holds something that no item may hold."""


def split_list(body: bytes, most: int) -> list[bytes]:
    """The JSON of each item, which need not be valid; of a longer list one more than `most`. Raises InvalidInput for
    what is no list, or one that does not end."""
    at = len(body) - len(body.lstrip(BLANK)) + 1
    if body[at - 1 : at] != b"[":
        raise InvalidInput("The body is not a list.")
    items: list[bytes] = []
    begin, depth = at, 0
    while len(items) <= most:
        found = (NEXT_INNER if depth else NEXT_OUTER).match(body, at)
        if found is None:
            raise InvalidInput("The body is not valid JSON: the list is cut off.")
        at, sign = found.end(), found[1]
        if sign in b"[{":
            depth += 1
        elif depth and sign in b"]}":
            depth -= 1
        else:
            item = body[begin : at - 1].strip(BLANK)
            if item or items or sign == b",":
                items.append(item)
            if sign == b"]":
                if body[at:].strip(BLANK):
                    raise InvalidInput("The body is not valid JSON: something follows the list.")
                return items
            if sign == b"}":
                raise InvalidInput("The body is not valid JSON: it has a closing brace too many.")
            begin = at
    return items
