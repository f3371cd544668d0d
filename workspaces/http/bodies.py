"""Request bodies in which a misspelt field is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers


def exactly_one_of(*names: str) -> dict[str, Any]:
    """OpenAPI of fields of which one is given."""
    return {"oneOf": [{"required": [name]} for name in names]}


def any_of(*values: object) -> dict[str, Any]:
    """OpenAPI of some of a field's values. No `enum`: drf-spectacular would take it for another choice."""
    return {"anyOf": [{"const": value} for value in values]}


class StrictBody(serializers.Serializer[Any]):
    """Base of every request body. Unknown fields are gathered with all other faults.

    For the OpenAPI document (`workspaces.http.openapi`): `stated` holds by field what a service checks, `together` what
    must be given together.
    """

    stated: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    together: ClassVar[Mapping[str, Any]] = {}

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        faults = {name: [f"is not a known field; known: {', '.join(self.fields)}"] for name in unknown}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if isinstance(error.detail, dict):
                raise serializers.ValidationError({**error.detail, **faults}) from error
            raise
        if faults:
            raise serializers.ValidationError(faults)
        return value
