"""Bodies and answers of the playground's endpoints."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.gateway.playground import Comparison, Offer, Rerun, Step
from models_registry.serializers import VersionField
from workspaces.serializers import StrictBody


class AskAgainSerializer(StrictBody):
    version = VersionField(help_text="The version to ask")
    state = serializers.DictField(required=False, help_text="Instead of the recorded one")
    options = serializers.ListField(
        child=serializers.CharField(max_length=200),
        min_length=2,
        max_length=1000,
        required=False,
        help_text="Instead of the recorded ones, of a choice",
    )


class AskEpisodeSerializer(StrictBody):
    version = VersionField(help_text="The version to ask")
    step = serializers.IntegerField(required=False, default=1, min_value=1, help_text="The decision to begin with")


class AskedOptionSerializer(serializers.Serializer[Offer]):
    action = serializers.JSONField()
    then = serializers.FloatField(allow_null=True, help_text="Recorded probability under the policy that acted")
    now = serializers.FloatField(help_text="The same under the version asked, with that temperature and exploration")
    thought = serializers.FloatField(help_text="What the version itself gives it")
    taken = serializers.BooleanField(help_text="It was done")
    picked = serializers.BooleanField(help_text="The version gives it the most")


class AskedAgainSerializer(serializers.Serializer[Comparison]):
    decision = serializers.UUIDField(source="decision.id")
    version = serializers.CharField(source="version.__str__")
    edited = serializers.BooleanField(help_text="It was asked about another state, or other options")
    action = serializers.JSONField(source="decision.action", help_text="What was done")
    propensity = serializers.FloatField(source="decision.propensity", allow_null=True)
    reward = serializers.FloatField(allow_null=True, help_text="Of what was done, in [0, 1]; null while unknown")
    pick = serializers.JSONField(help_text="What the version gives the most")
    agrees = serializers.BooleanField(help_text="Its pick is what was done")
    named = serializers.BooleanField(help_text="Its server named an option and gave no probabilities")
    offers = AskedOptionSerializer(many=True)


class AskedStepSerializer(serializers.Serializer[Step]):
    step = serializers.IntegerField(source="number", help_text="In the episode, from 1 on")
    decision = serializers.UUIDField(source="decision.id")
    comparison = serializers.SerializerMethodField(help_text="Null where the version could not be asked")
    failure = serializers.CharField(help_text="Why it could not")

    def get_comparison(self, step: Step) -> dict[str, Any] | None:
        return dict(AskedAgainSerializer(step.comparison).data) if step.comparison is not None else None


class AskedEpisodeSerializer(serializers.Serializer[Rerun]):
    decisions = serializers.IntegerField(help_text="Of the whole episode")
    ended = serializers.CharField(help_text="Why it stopped before the episode's end; empty where it did not")
    steps = AskedStepSerializer(many=True)
