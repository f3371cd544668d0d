"""Serializers of the lists of feedback and of rewards: each row names what it is about."""

from __future__ import annotations

from rest_framework import serializers

from decisions.api.serializers.decisions import FeedbackSerializer, RewardSerializer


class ListedFeedbackSerializer(FeedbackSerializer):
    decision = serializers.UUIDField(source="decision_id", allow_null=True)
    episode = serializers.UUIDField(source="episode_id", allow_null=True)

    class Meta(FeedbackSerializer.Meta):
        fields = [*FeedbackSerializer.Meta.fields, "decision", "episode", "unit", "idempotency_key"]


class ListedRewardSerializer(RewardSerializer):
    decision = serializers.UUIDField(source="decision_id")
    agent = serializers.CharField(source="spec.agent.slug")

    class Meta(RewardSerializer.Meta):
        fields = ["decision", "agent", *RewardSerializer.Meta.fields]
