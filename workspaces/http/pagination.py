"""Lists by cursor, newest first, in the order of uuid7 ids."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from workspaces.storage.index_order import read_in_index_order


class NewestFirst(CursorPagination):
    ordering = "-id"
    page_size_query_param = "limit"
    max_page_size = 500

    def paginate_queryset(self, *args: Any, **kwargs: Any) -> Any:
        with read_in_index_order():
            return super().paginate_queryset(*args, **kwargs)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri", "description": "Null at the end of the list"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": dict(link), "results": schema},
        }

    def decode_cursor(self, request: Request) -> Any:
        """Raises NotFound. A position is an id: anything else was not made here and would fail in the database."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                uuid.UUID(str(cursor.position))
            except ValueError as error:
                raise NotFound(self.invalid_cursor_message) from error
        return cursor
