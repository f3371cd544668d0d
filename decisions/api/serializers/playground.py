"""Bodies and answers of the playground's endpoints."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.gateway.playground import Comparison, Offer, Rerun, Step
from models_registry.api.serializers import VersionField
from workspaces.http.bodies import StrictBody


class AskAgainSerializer(StrictBody):
    version = VersionField(help_text="The version to ask")
    state = serializers.DictField(required=False, help_text="Replaces the recorded state")
    options = serializers.ListField(
        child=serializers.CharField(max_length=200),
        min_length=2,
        max_length=1000,
        required=False,
        help_text="Replace the recorded options of a choice",
    )


class AskEpisodeSerializer(StrictBody):
    version = VersionField(help_text="The version to ask")
    step = serializers.IntegerField(
        required=False, default=1, min_value=1, help_text="Number of the first decision to ask about"
    )


class AskedOptionSerializer(serializers.Serializer[Offer]):
    action = serializers.JSONField()
    then = serializers.FloatField(allow_null=True, help_text="Recorded probability under the policy that acted")
    now = serializers.FloatField(
        help_text="Probability under the version asked, with the same temperature and exploration"
    )
    thought = serializers.FloatField(help_text="The version's own probability, before temperature and exploration")
    taken = serializers.BooleanField(help_text="Whether it is the recorded action")
    picked = serializers.BooleanField(help_text="Whether the version gives it the highest probability")


class AskedAgainSerializer(serializers.Serializer[Comparison]):
    decision = serializers.UUIDField(source="decision.id")
    version = serializers.CharField(source="version.__str__")
    edited = serializers.BooleanField(help_text="Whether the state or the options were replaced")
    action = serializers.JSONField(source="decision.action", help_text="The recorded action")
    propensity = serializers.FloatField(source="decision.propensity", allow_null=True)
    reward = serializers.FloatField(
        allow_null=True, help_text="Reward of the recorded action, in [0, 1]; null while unknown"
    )
    pick = serializers.JSONField(help_text="The action to which the version gives the highest probability")
    agrees = serializers.BooleanField(help_text="Whether `pick` is the recorded action")
    named = serializers.BooleanField(help_text="Whether its server named an option without giving probabilities")
    offers = AskedOptionSerializer(many=True)


class AskedStepSerializer(serializers.Serializer[Step]):
    step = serializers.IntegerField(source="number", help_text="Number in the episode, from 1")
    decision = serializers.UUIDField(source="decision.id")
    comparison = serializers.SerializerMethodField(help_text="Null if the version could not be asked")
    failure = serializers.CharField(help_text="Why the version could not be asked")

    def get_comparison(self, step: Step) -> dict[str, Any] | None:
        return dict(AskedAgainSerializer(step.comparison).data) if step.comparison is not None else None


class AskedEpisodeSerializer(serializers.Serializer[Rerun]):
    decisions = serializers.IntegerField(help_text="Number of decisions in the whole episode")
    ended = serializers.CharField(help_text="Why it stopped before the episode's end; empty if it did not")
    steps = AskedStepSerializer(many=True)
