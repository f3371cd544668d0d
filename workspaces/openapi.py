"""How views describe themselves in OpenAPI: every operation states the one error envelope."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers


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


class EnvelopeSchema(AutoSchema):
    """Adds 400, 401, 403 and, where an id is in the path, 404, all in the envelope."""

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        # Not get_response_serializers: `extend_schema` replaces that one.
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status in ["400", "401", "403", *(["404"] if "{" in self.path else [])]:
            if status not in bodies:
                bodies[status] = self._get_response_for_code(ErrorSerializer, status, direction=direction)
        return bodies
