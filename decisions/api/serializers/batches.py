"""Serializers of the result of each item in a batch."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workspaces.http.openapi import FaultSerializer


class KeptSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    id = serializers.UUIDField()
    duplicate = serializers.BooleanField(help_text="True when the same item was recorded before")


class ItemErrorSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    code = serializers.CharField()
    fields = FaultSerializer(many=True)  # type: ignore[assignment]


class BatchResultSerializer(serializers.Serializer[Any]):
    kept = KeptSerializer(many=True)
    errors = ItemErrorSerializer(many=True)  # type: ignore[assignment]
