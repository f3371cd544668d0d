"""How views describe themselves in OpenAPI, and what every operation shares.

Errors are the one envelope, as shared responses; every POST takes an `Idempotency-Key`. Each floor's `examples.py` has
its examples, and `project.openapi` puts them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers

from workspaces.http.bodies import StrictBody
from workspaces.http.idempotency import HEADER, REPLAYED
from workspaces.http.queries import ListQuery
from workspaces.http.rendering import Negotiation

ANYTHING_OR_NULL = [{}, {"type": "null"}]


class FaultSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Path of the field, such as options[2]; empty for the whole body.")  # type: ignore[assignment]
    reason = serializers.CharField()
    expected = serializers.CharField(allow_blank=True)


class ErrorBodySerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Stable, for programs.")
    message = serializers.CharField(help_text="For a person.")
    fields = FaultSerializer(many=True)  # type: ignore[assignment]
    request_id = serializers.CharField(allow_null=True)


class ErrorSerializer(serializers.Serializer[Any]):
    error = ErrorBodySerializer()


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer that many operations give: its name among the shared responses, and an example."""

    name: str
    description: str
    code: str
    message: str
    fault: tuple[str, str, str] | None = None
    """Field, reason, expected."""
    headers: Mapping[str, Any] = field(default_factory=dict)

    def example(self) -> dict[str, Any]:
        fields = [dict(zip(("field", "reason", "expected"), self.fault, strict=True))] if self.fault else []
        error = {"code": self.code, "message": self.message, "fields": fields, "request_id": "7f3f0f0e6a0b4c57"}
        return {"error": error}


RETRY_AFTER = {
    "Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 1}, "example": 17}
}
REFUSALS = {
    400: Refusal(
        "NotUsable",
        "The request is invalid. `fields` lists every fault that could be found at once.",
        "invalid_input",
        "The item was not recorded.",
        ("propensity", "Expected `float` <= 1.0", "`float` <= 1.0"),
    ),
    401: Refusal(
        "NotAuthenticated",
        "The credentials are missing, or the key is unknown, expired or revoked.",
        "not_authenticated",
        "This key is unknown, expired or revoked.",
        headers={"WWW-Authenticate": {"schema": {"type": "string"}, "example": 'Bearer realm="api"'}},
    ),
    403: Refusal(
        "NotAllowed",
        "The key or role does not have the scope that the message names.",
        "not_allowed",
        "This call needs the scope admin.",
    ),
    404: Refusal(
        "NotFound",
        "Something that the request names does not exist or belongs to another workspace.",
        "not_found",
        "Not found.",
    ),
    406: Refusal(
        "NotAcceptable",
        "This operation has no answer in a format of the Accept header.",
        "not_acceptable",
        "Could not satisfy the request Accept header.",
    ),
    409: Refusal(
        "InConflict",
        "A conflict, named by `code`; or the first request with this Idempotency-Key has no answer yet.",
        "request_in_flight",
        "The first request with this Idempotency-Key is still being processed. Retry later.",
    ),
    410: Refusal(
        "Erased",
        "What had this id, or the answer to this Idempotency-Key, was erased at a person's request.",
        "erased",
        "What was recorded under this id was erased.",
        ("id", "01a1f805-50a4-7d43-a901-42a0ce80c4b0 was erased", "leave it out"),
    ),
    411: Refusal(
        "LengthRequired",
        "A body without a length.",
        "length_required",
        "Send a Content-Length, or a chunked body by HTTP/1.1.",
    ),
    413: Refusal(
        "TooLarge", "The body is too long.", "too_large", "The body has 1048577 bytes; at most 1048576 are allowed."
    ),
    415: Refusal(
        "UnsupportedMediaType",
        "The Content-Type or Content-Encoding is not supported.",
        "unsupported_media_type",
        'Unsupported media type "text/plain" in request.',
    ),
    422: Refusal(
        "KeyReused",
        "The Idempotency-Key was used for another request; for `decide`, also `backend_refused`.",
        "idempotency_key_reused",
        "This Idempotency-Key was used for another request. Send a new key.",
    ),
    429: Refusal(
        "TooManyRequests",
        "The key has used up its requests of this minute. Nothing was done.",
        "too_many_requests",
        "This key may send 30000 requests per minute. Wait for the time in Retry-After.",
        headers=RETRY_AFTER,
    ),
    503: Refusal(
        "Unavailable",
        "Temporarily unavailable. Send the same request again.",
        "unavailable",
        "The database does not answer. Send the same request again.",
        headers=RETRY_AFTER,
    ),
    507: Refusal(
        "NoSpace",
        "No space: the disk of the server or of its database is full (`disk_full`), or the workspace's artifacts leave "
        "no space (`quota_exceeded`). Nothing was kept or started.",
        "quota_exceeded",
        "The workspace has 9.8 GB of artifacts of 10.0 GB that it may have: 300.0 MB more do not fit.",
    ),
}
SUCCESSES = {
    "200": "The requested data, or the result of the request.",
    "201": "It is recorded.",
    "202": "It is accepted and continues after the answer.",
    "204": "It is done. The answer has no body.",
    "207": "Some items were recorded. `errors` says which were not and why.",
}
IDEMPOTENCY_KEY = {
    "name": HEADER,
    "in": "header",
    "description": "Choose a new one for each thing that you want done. The first success is kept, and the same "
    "request under the key gets it again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "note-17-filed",
}
IDEMPOTENT_REPLAYED = {
    "description": f"The answer is the stored first answer to this {HEADER}.",
    "schema": {"type": "string", "enum": ["true"]},
}


class EnvelopeSchema(AutoSchema):
    """States the refusals that apply to every operation of its kind, beside those that a view declares itself."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        responses = operation["responses"]
        for status in sorted({*self._refused_with(operation), *(int(one) for one in responses if int(one) >= 400)}):
            responses[str(status)] = self._share_refusal(status)
        for status, response in responses.items():
            if status in SUCCESSES and not response["description"]:
                response["description"] = SUCCESSES[status]
        if self.method == "POST":
            operation.setdefault("parameters", []).append(
                self._share(ResolvedComponent.PARAMETER, "IdempotencyKey", IDEMPOTENCY_KEY)
            )
            replayed = self._share(ResolvedComponent.HEADER, "IdempotentReplayed", IDEMPOTENT_REPLAYED)
            for status, response in responses.items():
                if status.startswith("2"):
                    response.setdefault("headers", {})[REPLAYED] = replayed
        operation["responses"] = dict(sorted(responses.items()))
        return operation

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        """Adds to a body what its serializer states beyond its fields, and that other fields are refused."""
        schema = super()._map_basic_serializer(serializer, direction)
        if not isinstance(serializer, StrictBody):
            return schema
        for name, stated in serializer.stated.items():
            if name in schema["properties"]:
                schema["properties"][name] = _with_limits(schema["properties"][name], stated)
        return {**schema, "additionalProperties": False, **serializer.together}

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        """A text that is trimmed and may not be blank holds more than spaces."""
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        trimmed = type(field) is serializers.CharField and field.trim_whitespace and not field.allow_blank
        if trimmed and direction == "request" and schema.get("type") == "string" and not field.read_only:
            return schema if {"pattern", "format", "enum"} & set(schema) else {**schema, "pattern": r"\S"}
        return schema

    def get_override_parameters(self) -> list[Any]:
        """Those of the view's query, and of a list those that every list has."""
        declared = super().get_override_parameters()
        query = getattr(self.view, "query_class", None)
        if query is None and self._is_list_view() and getattr(self.view, "pagination_class", None) is not None:
            query = ListQuery
        return [*declared, query] if query is not None and self.method == "GET" else declared

    def _refused_with(self, operation: dict[str, Any]) -> set[int]:
        """Who may not, not so, too often, not now; and what goes wrong with parameters, bodies and keys."""
        parameters = operation.get("parameters", [])
        places = {parameter["in"] for parameter in parameters}
        has_body = "requestBody" in operation
        # 400: any query may hold what no parameter may. 507: the database sorts on its disk, too.
        statuses = {400, 401, 403, 429, 503, 507}
        # Some answer in one way, whatever is asked for.
        if self.view.content_negotiation_class is Negotiation:
            statuses |= {406}
        # An unknown cursor is a 404, and so is an unknown format.
        named = {parameter["name"] for parameter in parameters}
        if "path" in places or "cursor" in named or ("format" in named and 406 in statuses):
            statuses |= {404}
        if has_body:
            statuses |= {411, 413, 415}
        if self.method == "POST":
            statuses |= {409, 410, 422}
        if self.method == "DELETE":  # others may depend on it
            statuses |= {409}
        return statuses

    def _share_refusal(self, status: int) -> dict[str, Any]:
        refusal = REFUSALS[status]
        content = self._get_response_for_code(ErrorSerializer, str(status))["content"]
        for media in content.values():
            media["example"] = refusal.example()
        shown: dict[str, Any] = {"description": refusal.description, "content": content}
        if refusal.headers:
            shown["headers"] = dict(refusal.headers)
        return self._share(ResolvedComponent.RESPONSE, refusal.name, shown)

    def _share(self, kind: str, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to the component, which is registered with its first use."""
        component = ResolvedComponent(name=name, type=kind, schema=dict(content), object=name)
        self.registry.register_on_missing(component)
        reference: dict[str, Any] = component.ref
        return reference


NEEDING = ("required", "minProperties", "oneOf", "anyOf", "allOf")
"""What in a body's schema no missing body fits."""


def require_bodies(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook: a body is required where some of its fields are."""
    for methods in result["paths"].values():
        for operation in methods.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                schema = result["components"]["schemas"][name] if name else media["schema"]
                if any(schema.get(word) for word in NEEDING):
                    operation["requestBody"]["required"] = True
    return result


def _with_limits(schema: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The limits beside the type that they limit: of a list's entries under `items`, of a nullable field within."""
    if "items" in stated:
        stated = {**stated, "items": {**schema.get("items", {}), **stated["items"]}}
    for several in ("oneOf", "anyOf"):
        if several in schema and "type" not in schema:
            parts = [part if part.get("type") == "null" else {**part, **stated} for part in schema[several]]
            return {**schema, several: parts}
    return {**schema, **stated}


def allow_null(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook: null fits `{}`, so that drf-spectacular's `oneOf: [{}, null]` would refuse it as two."""

    def simplify(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("oneOf") == ANYTHING_OR_NULL:
                del node["oneOf"]
            for inner in node.values():
                simplify(inner)
        elif isinstance(node, list):
            for inner in node:
                simplify(inner)

    simplify(result)
    return result
