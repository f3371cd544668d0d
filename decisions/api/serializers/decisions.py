"""Serializers of decisions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from decisions.models import Decision, Feedback, Label, Reward


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    agent = serializers.CharField(source="agent.slug")
    agent_version = serializers.IntegerField(source="agent_version.number")
    model_version = serializers.SerializerMethodField()
    variant = serializers.SerializerMethodField()

    class Meta:
        model = Decision
        fields = [
            "id",
            "agent",
            "agent_version",
            "state",
            "options",
            "action",
            "next_state",
            "confidence",
            "completion",
            "finish_reason",
            "parameters",
            "reasoning",
            "alternatives",
            "propensity",
            "temperature",
            "epsilon",
            "model_version",
            "policy_name",
            "variant",
            "unit",
            "episode",
            "step_number",
            "external_id",
            "item_ref",
            "project_ref",
            "user_ref",
            "latency_ms",
            "tokens_in",
            "tokens_out",
            "tokens_estimated",
            "cost",
            "observed_at",
            "recorded_at",
        ]

    def get_model_version(self, decision: Decision) -> str | None:
        return str(decision.model_version) if decision.model_version else None

    def get_variant(self, decision: Decision) -> str | None:
        return decision.exposure.arm if decision.exposure else None


class FeedbackSerializer(serializers.ModelSerializer[Feedback]):
    value = serializers.JSONField()

    class Meta:
        model = Feedback
        fields = ["id", "metric", "value", "source", "observed_at", "recorded_at", "supersedes"]


class LabelSerializer(serializers.ModelSerializer[Label]):
    labelled_by = serializers.CharField(read_only=True, help_text="A person's name, or the key that labelled")
    bulk = serializers.UUIDField(
        source="bulk_id", read_only=True, allow_null=True, help_text="The bulk label that it was given with"
    )

    class Meta:
        model = Label
        fields = ["id", "verdict", "corrected_action", "note", "labelled_by", "bulk", "created_at"]
        read_only_fields = ["id", "created_at"]


class RewardSerializer(serializers.ModelSerializer[Reward]):
    spec = serializers.IntegerField(source="spec.number")

    class Meta:
        model = Reward
        fields = ["spec", "version", "value", "raw", "components", "computed_at"]


class DecisionDetailSerializer(DecisionSerializer):
    feedback = FeedbackSerializer(many=True)
    labels = serializers.SerializerMethodField(help_text="Without those that wait in a queue for other reviewers")
    rewards = RewardSerializer(many=True)

    class Meta(DecisionSerializer.Meta):
        fields = [*DecisionSerializer.Meta.fields, "feedback", "labels", "rewards"]

    @extend_schema_field(LabelSerializer(many=True))
    def get_labels(self, decision: Decision) -> Any:
        return LabelSerializer([label for label in decision.labels.all() if not label.pending], many=True).data
