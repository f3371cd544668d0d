"""Serializers of steps and episodes."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.api.serializers.decisions import DecisionSerializer
from decisions.models import Episode, Step

COUNTED = "As reported, else as counted"


class StepSerializer(serializers.ModelSerializer[Step]):
    decision_id = serializers.UUIDField(allow_null=True)
    arguments = serializers.JSONField()
    result = serializers.JSONField()

    class Meta:
        model = Step
        fields = [
            "id",
            "episode",
            "decision_id",
            "kind",
            "name",
            "number",
            "external_id",
            "parent",
            "arguments",
            "result",
            "success",
            "error",
            "reasoning_type",
            "content",
            "confidence",
            "insights",
            "issues",
            "model",
            "tokens_in",
            "tokens_out",
            "cost",
            "started_at",
            "duration_ms",
            "attributes",
            "recorded_at",
        ]


class EpisodeSerializer(serializers.ModelSerializer[Episode]):
    agent = serializers.CharField(source="agent.slug")
    cost = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True, help_text=COUNTED)

    class Meta:
        model = Episode
        extra_kwargs = {
            name: {"help_text": COUNTED} for name in ("llm_calls", "tokens_in", "tokens_out", "duration_ms", "ended_at")
        }
        fields = [
            "id",
            "agent",
            "external_id",
            "trace",
            "session",
            "unit",
            "query",
            "final_response",
            "tasks_created",
            "tasks_completed",
            "tasks_failed",
            "llm_calls",
            "tokens_in",
            "tokens_out",
            "cost",
            "duration_ms",
            "started_at",
            "ended_at",
        ]


class TotalsSerializer(serializers.Serializer[Any]):
    """Counted and summed over what was recorded; the fields above are these where nobody reported others."""

    steps = serializers.IntegerField(help_text="With the chats of the gateway that no step tells of")
    decisions = serializers.IntegerField()
    failures = serializers.IntegerField(help_text="Steps that failed")
    tool_calls = serializers.IntegerField(help_text="Of its steps, or of its chats' answers if those called more")
    llm_calls = serializers.IntegerField()
    tokens_in = serializers.IntegerField(allow_null=True)
    tokens_out = serializers.IntegerField(allow_null=True)
    cost = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class FoundSerializer(serializers.Serializer[Any]):
    """What lies in an episode."""

    totals = TotalsSerializer()
    decisions = DecisionSerializer(many=True, help_text="The first 1,000, in order")
    steps = StepSerializer(many=True, help_text="The first 1,000, in order; all of them at /steps?episode=")


class EpisodeDetailSerializer(EpisodeSerializer, FoundSerializer):
    class Meta(EpisodeSerializer.Meta):
        fields = [*EpisodeSerializer.Meta.fields, "totals", "decisions", "steps"]
