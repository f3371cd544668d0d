"""Request bodies in which a misspelt field is an error that names it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class StrictBody(serializers.Serializer[Any]):
    """Base of every request body. Unknown fields are gathered with all other faults."""

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
