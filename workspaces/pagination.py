"""Lists are read by cursor, newest first: uuid7 ids are the order."""

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    ordering = "-id"
    page_size_query_param = "limit"
    max_page_size = 500
