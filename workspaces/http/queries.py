"""Query parameters of lists, declared once: they are checked, documented, and every other name is refused.

A list's view names its class as `query_class` and reads `list_query(self)`. What is not usable is refused with its name
and what would be right; nothing is clamped or passed over, since a list that is not narrowed as somebody meant it looks
like one that is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from workspaces.errors import FieldFault, InvalidInput

MOST_ROWS, ROWS = 500, 50
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
EVERYWHERE = frozenset({"format"})
"""What every address may say besides: in which of its formats it answers."""


MOMENT = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^(19[7-9]\d|2[01]\d\d)-.*(Z|z|[+-](0\d|1[0-5]):[0-5]\d)$",
}
"""OpenAPI of a time that is taken, in queries and bodies: from 1970 to 2199, less than 16 hours from UTC."""


@extend_schema_field(MOMENT)
class MomentField(serializers.DateTimeField):
    """A time with its offset."""

    def to_internal_value(self, value: Any) -> dt.datetime:
        try:
            moment = parse_datetime(value)
            if moment is not None and moment.tzinfo is not None and EARLIEST <= moment <= LATEST:
                return moment.astimezone(dt.UTC)
        except (TypeError, ValueError, OverflowError):
            pass
        raise serializers.ValidationError("is not a time with its offset")


class ListQuery(serializers.Serializer[Any]):
    """What every list takes. Ids hold the time at which a row was made, so `since` and `until` cost nothing."""

    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=MOST_ROWS, help_text=f"Rows of a page; {ROWS} by default"
    )
    cursor = serializers.CharField(required=False, help_text="Of `next` or `previous` in an answer")
    since = MomentField(required=False, help_text="Only what was made at this time or later")
    until = MomentField(required=False, help_text="Only what was made before this time")


def list_query(view: Any) -> dict[str, Any]:
    """The parameters of the view's request that were given, read once. Raises InvalidInput with every fault."""
    request: Request = view.request
    known: dict[str, Any] | None = getattr(request, "_list_query", None)
    if known is None:
        known = read_query(request, getattr(view, "query_class", ListQuery))
        request._list_query = known  # type: ignore[attr-defined]
    return known


def read_query(request: Request, query_class: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """The parameters that were given and are not empty. Raises InvalidInput with every fault."""
    texts = {name: text for name, text in request.query_params.items() if text != ""}
    query = query_class(data={name: text for name, text in texts.items() if name in query_class().fields})
    faults = find_unknown_names(request, query.fields)
    if not query.is_valid():
        faults += [
            FieldFault(name, f"{texts.get(name, '')[:100]!r} is invalid", expected_of(query.fields[name]))
            for name in query.errors
        ]
    if faults:
        raise InvalidInput("The query is invalid.", faults=faults)
    return dict(query.validated_data)


def find_unknown_names(request: Request, names: Collection[str]) -> list[FieldFault]:
    """Parameters that an address does not have."""
    known = ", ".join(names) or "no parameters"
    return [
        FieldFault(name[:100], "is not a known parameter", known)
        for name in request.query_params
        if name not in names and name not in EVERYWHERE
    ]


def refuse_unknown_names(request: Request, names: Collection[str]) -> None:
    """Raises InvalidInput for parameters that an address does not have."""
    if faults := find_unknown_names(request, names):
        raise InvalidInput("The query is invalid.", faults=faults)


def expected_of(field: serializers.Field[Any, Any, Any, Any]) -> str:
    """What a parameter takes, for a person; a field of another floor may say so itself, as `expected`."""
    if said := getattr(field, "expected", ""):
        return str(said)
    if isinstance(field, serializers.IntegerField):
        return f"a whole number from {field.min_value} to {field.max_value}"
    if isinstance(field, serializers.ChoiceField):
        return ", ".join(map(str, field.choices))
    if isinstance(field, MomentField):
        return "a time with its offset from 1970 to 2200, such as 2026-11-20T08:00:00Z"
    if isinstance(field, serializers.UUIDField):
        return "an id"
    if isinstance(field, serializers.DateField):
        return "a date such as 2026-11-22"
    return f"text of up to {getattr(field, 'max_length', None) or 200} characters"
