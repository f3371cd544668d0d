"""Shared code of endpoints that take one item or a list."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from django.db.models import Model
from django.http import HttpResponse
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.answer_ids import SCHEMA, UUID7
from decisions.api.together import TOGETHER
from decisions.errors import Erased, IdConflict
from decisions.ingest.batches import BatchResult
from decisions.ingest.decoding import DECISION
from decisions.ingest.schemas import MAX_ITEMS
from workspaces.access.clocks import note_clock
from workspaces.errors import InvalidInput
from workspaces.http.parsing import RawBatchParser
from workspaces.http.permissions import acting
from workspaces.http.queries import MOMENT
from workspaces.http.rendering import FastJSONRenderer

T = TypeVar("T", bound=Model)


def struct_schema(struct: type[msgspec.Struct], most: int) -> dict[str, Any]:
    """OpenAPI for a body of one msgspec item or a list of up to `most` of them, inlined."""
    schemas, components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return inline(components[node["$ref"].rsplit("/", 1)[-1]])
            plain = {key: inline(value) for key, value in node.items()}
            if DECISION in plain.get("properties", ()):
                plain["properties"][DECISION] = {"anyOf": [dict(SCHEMA), {"type": "null"}], "default": None}
            if plain.get("properties", {}).get("id", {}).get("format") == "uuid":
                plain["properties"]["id"] = {"type": "string", "format": "uuid", "pattern": f"^{UUID7}$"}
            return {**plain, **MOMENT} if plain.get("format") == "date-time" else plain
        return [inline(value) for value in node] if isinstance(node, list) else node

    one = {**inline(schemas[0]), **TOGETHER.get(struct, {})}
    return {"oneOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": most}]}


def body_of(struct: type[msgspec.Struct], *, most: int = MAX_ITEMS) -> dict[str, Any]:
    return {"application/json": struct_schema(struct, most)}


def _moments_of(items: Iterable[tuple[int, Any]]) -> Iterator[dt.datetime]:
    """Yields the times that the sender's clock gave the items, where it gave any."""
    for _, item in items:
        for name in ("observed_at", "started_at"):
            if isinstance(moment := getattr(item, name, None), dt.datetime):
                yield moment


class IngestView(APIView):
    """Takes one item or up to 1,000. 201 when all were kept, 207 with reasons when some were not."""

    renderer_classes = [FastJSONRenderer]
    parser_classes = [RawBatchParser]

    def answer(self, outcome: BatchResult, batch: Any) -> HttpResponse:
        note_clock(acting(self.request).key, moments=_moments_of(batch.items), date=self.request.headers.get("Date"))
        errors = sorted([*batch.errors, *outcome.errors], key=lambda error: error.index)
        if batch.single and errors:
            error = errors[0]
            kind = {IdConflict.code: IdConflict, Erased.code: Erased}.get(error.code, InvalidInput)
            raise kind("The item was not recorded.", faults=error.faults)
        body = {
            "kept": outcome.kept,
            "errors": [{"index": error.index, **error.as_plain()} for error in errors],
        }
        # Not by DRF's response, which refers to itself: each batch would wait for the collector of cycles.
        content = msgspec.json.encode(body)
        return HttpResponse(content, status=207 if errors else 201, content_type="application/json")


class IngestListView(IngestView, generics.ListAPIView[T]):
    """One that lists as well."""

    def head(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Written out, since Django would hang a method on each view that refers back to it."""
        return self.get(request, *args, **kwargs)
