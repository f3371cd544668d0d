"""Lists by cursor, newest first, in the order of uuid7 ids, and between two times by the same ids."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from workspaces.http.queries import ROWS, list_query
from workspaces.storage.ids import uuid7_bound
from workspaces.storage.index_order import read_in_index_order


class NewestFirst(CursorPagination):
    ordering: str | tuple[str, ...] = "-id"
    id_column = "id"
    """Which holds the ids that the list is in the order of."""
    page_size = ROWS
    _query: Mapping[str, Any] = MappingProxyType({})

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        """Raises InvalidInput for a query that is not the view's."""
        self._query = list_query(view)
        for name, lookup in (("since", "gte"), ("until", "lt")):
            if isinstance(moment := self._query.get(name), dt.datetime):  # else the view's own, such as a day
                queryset = queryset.filter(**{f"{self.id_column}__{lookup}": uuid7_bound(moment)})
        with read_in_index_order():
            return super().paginate_queryset(queryset, request, view)

    def get_page_size(self, request: Request) -> int:
        return int(self._query.get("limit", self.page_size))

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """None of its own: the view's query has them (`workspaces.http.queries`)."""
        return []

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri", "description": "Null at the end of the list"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": dict(link), "results": schema},
        }

    def decode_cursor(self, request: Request) -> Any:
        """Raises NotFound. A position names an id: anything else was not made here and would fail in the database."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                self.read_position(str(cursor.position))
            except ValueError as error:
                raise NotFound(self.invalid_cursor_message) from error
        return cursor

    def read_position(self, position: str) -> uuid.UUID:
        """The id that a cursor's position names. Raises ValueError."""
        return uuid.UUID(position)
