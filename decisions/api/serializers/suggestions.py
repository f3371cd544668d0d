"""Serializers of the auto-labeler."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.models import AutoLabeler, LabelSuggestion
from jobs.models import Job


class FieldSuggestionSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Its place in the action, with dots between names")
    value = serializers.JSONField(help_text="The right value, as the auto-labeler sees it")
    confidence = serializers.FloatField(help_text="Calibrated probability that it is right, 0 to 1")


class SuggestionSerializer(serializers.ModelSerializer[LabelSuggestion]):
    decision = serializers.UUIDField(source="decision_id", allow_null=True)
    episode = serializers.UUIDField(source="episode_id", allow_null=True, help_text="In place of a decision")
    verdict = serializers.CharField(help_text="Of a label that agrees; empty where only fields are suggested")
    action = serializers.JSONField(
        allow_null=True, help_text="The right action; null where only a verdict or some fields are suggested"
    )
    fields = FieldSuggestionSerializer(many=True, help_text="Of a structured action, those that are sure enough")  # type: ignore[assignment]
    confidence = serializers.FloatField(
        help_text="Calibrated probability that the whole is right, 0 to 1; the lowest of the fields where no action is"
    )

    class Meta:
        model = LabelSuggestion
        fields = ["decision", "episode", "verdict", "action", "fields", "confidence", "made_at"]


class FieldQualitySerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Its place in the action, with dots between names")
    labels = serializers.IntegerField(help_text="How many it learnt from")
    accuracy = serializers.FloatField(allow_null=True, help_text="Share of unseen labels that it answers right")
    baseline = serializers.FloatField(allow_null=True, help_text="The same of a guess without reading")
    threshold = serializers.FloatField(allow_null=True, help_text="Confidence from which it suggests")
    precision = serializers.FloatField(
        allow_null=True, help_text="Share of its suggestions on unseen labels that are right"
    )
    coverage = serializers.FloatField(help_text="Share of unseen labels for which it would make a suggestion")
    reason = serializers.CharField(help_text="Why it was not learnt; empty if it was")


class AutoLabelerSerializer(serializers.ModelSerializer[AutoLabeler]):
    suggests = serializers.CharField(help_text="What it suggests: option, first (item), fields or verdict")
    accuracy = serializers.FloatField(
        allow_null=True, help_text="Share of unseen labels that its likeliest answer has right, with no threshold"
    )
    baseline = serializers.FloatField(
        allow_null=True, help_text="The same of a guess without reading: the most frequent answer, or any item"
    )
    threshold = serializers.FloatField(allow_null=True, help_text="Confidence from which it suggests")
    precision = serializers.FloatField(
        allow_null=True, help_text="Share of its answers on unseen labels that are right"
    )
    coverage = serializers.FloatField(help_text="Share of unseen labels for which it would make a suggestion")
    fields = FieldQualitySerializer(many=True, help_text="The same of each field of a structured action")  # type: ignore[assignment]
    reason = serializers.CharField(help_text="Why it suggests nothing; empty if it does")
    about = serializers.CharField(help_text="What of an action is not suggested, and why; empty if all of it is")
    trained_at = serializers.DateTimeField(allow_null=True)

    class Meta:
        model = AutoLabeler
        fields = [
            "suggests", "labels", "actions", "accuracy", "baseline", "threshold", "precision", "coverage", "fields",
            "suggested", "looked_at", "reason", "about", "trained_at",
        ]  # fmt: skip


class TrainingSerializer(serializers.ModelSerializer[Job]):
    class Meta:
        model = Job
        fields = ["id", "state", "created_at"]
