"""Where the page of a list lies that is asked for: for lists that find their ids first."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework import generics

from decisions.queries.by_name import FIRST, LAST
from workspaces.http.pagination import NewestFirst
from workspaces.http.queries import list_query
from workspaces.storage.ids import uuid7_bound


def find_place(view: generics.GenericAPIView[Any], *, again: bool = False) -> dict[str, Any]:
    """Between which ids the page lies, in which direction it is read, and how many rows it needs. `again`: of the id
    where the page before ended, there may be more."""
    assert isinstance(view.paginator, NewestFirst)
    cursor, query = view.paginator.decode_cursor(view.request), list_query(view)
    newer = cursor is not None and cursor.reverse
    # Both ends are left out, so the lower one is the id before the first of its moment.
    low = uuid.UUID(int=max(uuid7_bound(query["since"]).int - 1, 0)) if "since" in query else FIRST
    high = uuid7_bound(query["until"]) if "until" in query else LAST
    if cursor is not None and cursor.position:
        here = view.paginator.read_position(cursor.position).int
        if newer:
            low = max(low, uuid.UUID(int=max(here - again, FIRST.int)))
        else:
            high = min(high, uuid.UUID(int=min(here + again, LAST.int)))
    offset = cursor.offset if cursor is not None else 0
    most = query.get("limit", view.paginator.page_size) + offset + 1 + again
    return {"between": (low, high), "newer": newer, "most": most}
