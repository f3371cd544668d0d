"""Serializers of the auto-labeler."""

from __future__ import annotations

from rest_framework import serializers

from decisions.models import AutoLabeler, LabelSuggestion
from jobs.models import Job


class SuggestionSerializer(serializers.ModelSerializer[LabelSuggestion]):
    decision = serializers.UUIDField(source="decision_id")
    confidence = serializers.FloatField(help_text="Calibrated probability that the action is right, 0 to 1")

    class Meta:
        model = LabelSuggestion
        fields = ["decision", "action", "confidence", "made_at"]


class AutoLabelerSerializer(serializers.ModelSerializer[AutoLabeler]):
    threshold = serializers.FloatField(allow_null=True, help_text="Confidence from which it suggests")
    precision = serializers.FloatField(
        allow_null=True, help_text="Share of its answers on unseen labels that are right"
    )
    coverage = serializers.FloatField(help_text="Share of unseen labels for which it would make a suggestion")
    reason = serializers.CharField(help_text="Why it suggests nothing; empty if it does")
    trained_at = serializers.DateTimeField(allow_null=True)

    class Meta:
        model = AutoLabeler
        fields = [
            "labels", "actions", "threshold", "precision", "coverage", "suggested", "looked_at", "reason", "trained_at",
        ]  # fmt: skip


class TrainingSerializer(serializers.ModelSerializer[Job]):
    class Meta:
        model = Job
        fields = ["id", "state", "created_at"]
