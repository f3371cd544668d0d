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

    def get_response_serializers(self) -> Any:
        given = super().get_response_serializers()
        if not isinstance(given, dict):
            given = {self._success_status(): given}
        responses = {str(status): serializer for status, serializer in given.items()}
        for status in ["400", "401", "403", *(["404"] if "{" in self.path else [])]:
            responses.setdefault(status, ErrorSerializer)
        return responses

    def _success_status(self) -> str:
        return {"POST": "201", "DELETE": "204"}.get(self.method, "200")
