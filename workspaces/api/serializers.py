"""Serializers of API keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from workspaces.access.services import LIMITS, MAX_LIFE, MAX_OVERLAP, MOST_REQUESTS, KeyLimits, is_live
from workspaces.http.bodies import StrictBody
from workspaces.models import ApiKey, Scope


class KeySerializer(serializers.ModelSerializer[ApiKey]):
    """A key without its secret."""

    state = serializers.SerializerMethodField(help_text="live, expired or revoked")

    class Meta:
        model = ApiKey
        fields = (
            "id", "name", "prefix", "scopes", "state", "created_at", "expires_at", "revoked_at", "last_used_at",
            "previous_until", "requests_a_minute", "spend_a_day", "agents",
        )  # fmt: skip
        read_only_fields = fields

    def get_state(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return "revoked"
        return "live" if is_live(key, timezone.now()) else "expired"


class NewKeySerializer(KeySerializer):
    """With `token`, PREFIX.SECRET, which is shown once; null where the answer is a repeat's."""

    token = serializers.CharField(allow_null=True, read_only=True)

    class Meta(KeySerializer.Meta):
        fields = (*KeySerializer.Meta.fields, "token")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class KeyLimitsSerializer(StrictBody):
    """What is left out stays as it is."""

    stated = {"spend_a_day": {"pattern": r"^(0\.\d{0,5}[1-9]|[1-9]\d{0,6}(\.\d{1,6})?)$"}}
    requests_a_minute = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_REQUESTS,
        help_text="Null for the instance's limit, which no key exceeds",
    )
    spend_a_day = serializers.DecimalField(
        required=False,
        allow_null=True,
        max_digits=14,
        decimal_places=6,
        min_value=Decimal("0.000001"),
        help_text="Largest cost of its calls in a day (UTC), in the unit of the backends' prices; null for no budget",
    )
    agents = serializers.ListField(
        child=serializers.SlugField(max_length=63),
        required=False,
        max_length=100,
        help_text="Slugs of the agents that it may ask; empty for all",
    )


class KeyCreateSerializer(KeyLimitsSerializer):
    """What is left out of the limits is no limit of its own."""

    name = serializers.CharField(max_length=200)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices), min_length=1, max_length=5)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)

    def validate_expires_at(self, moment: Any) -> Any:
        if moment is not None and not timezone.now() < moment <= timezone.now() + MAX_LIFE:
            raise serializers.ValidationError("Enter a time within the next ten years.")
        return moment

    def validate(self, given: Any) -> Any:
        """The limits together, as `create_api_key` takes them."""
        limits = {name: given.pop(name) for name in LIMITS if name in given}
        return {**given, "limits": KeyLimits(**limits)}


class KeyRotateSerializer(StrictBody):
    overlap_seconds = serializers.FloatField(
        default=86_400.0, min_value=0, max_value=MAX_OVERLAP.total_seconds(), help_text="0 seconds to 30 days"
    )
