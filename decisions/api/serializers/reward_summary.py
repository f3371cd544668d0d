"""Serializers of what an agent's rewards look like over time; they read `decisions.queries.reward_summary`."""

from __future__ import annotations

from rest_framework import serializers

from decisions.queries.component_states import State
from decisions.queries.reward_summary import ComponentSummary, Failure, Lag, Progress, RewardSummary, Stretch, Window

STATES: dict[State, str] = {
    "value": "with a value",
    "missing": "the window closed without a value, and the missing value of the spec counts",
    "due": "the window has closed, and the next calculation counts the missing value of the spec",
    "closed": "the window closed without a value, and nothing counts instead",
    "maturing": "no value yet, and the window is open",
    "unmeasured": "a job has yet to measure it",
    "waiting": "no value yet, and no window",
    "failed": "it has an error",
}


class RewardStretchSerializer(serializers.Serializer[Stretch]):
    start = serializers.DateTimeField()
    looked_at = serializers.IntegerField()
    full = serializers.BooleanField(help_text="True if there may be more decisions than were looked at")
    rewarded = serializers.IntegerField()
    mean = serializers.FloatField(allow_null=True, help_text="From 0 to 1; null without a reward")
    low = serializers.FloatField(allow_null=True, help_text="Lower end of the 95% interval")
    high = serializers.FloatField(allow_null=True)


class RewardComponentSerializer(serializers.Serializer[ComponentSummary]):
    name = serializers.CharField(source="entry.name")
    horizon = serializers.CharField(source="entry.horizon", help_text="immediate, delayed or strategic")
    weight = serializers.FloatField(source="entry.weight")
    mean = serializers.FloatField(
        allow_null=True, help_text="What it adds on average to the raw sum of a rewarded decision"
    )
    means = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="The same by stretch")
    states = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="How many decisions. " + "; ".join(f"`{state}`: {means}" for state, means in STATES.items()),
    )
    queued = serializers.IntegerField(help_text="How many of the unmeasured have a job in the queue")


class RewardFailureSerializer(serializers.Serializer[Failure]):
    component = serializers.CharField()
    reason = serializers.CharField()
    count = serializers.IntegerField()
    examples = serializers.ListField(child=serializers.UUIDField(), help_text="Decisions, the newest first")


class LagWindowSerializer(serializers.Serializer[Window]):
    name = serializers.CharField()
    seconds = serializers.FloatField()
    share = serializers.FloatField(source="share.mean", default=None, allow_null=True)
    low = serializers.FloatField(source="share.low", default=None, allow_null=True)
    high = serializers.FloatField(source="share.high", default=None, allow_null=True)


class FeedbackLagSerializer(serializers.Serializer[Lag]):
    decisions = serializers.IntegerField(source="curve.n")
    verdicts = serializers.IntegerField(source="curve.events", help_text="Decisions that have a verdict")
    median_seconds = serializers.FloatField(source="median", allow_null=True)
    within = LagWindowSerializer(
        many=True,
        source="all_windows",
        help_text="Share of decisions with a verdict by then; null if no decision is that old",
    )


class RewardProgressSerializer(serializers.Serializer[Progress]):
    due = serializers.IntegerField(help_text="Decisions marked for calculation")
    more = serializers.BooleanField(help_text="True if counting stopped at this number")
    searched_until = serializers.DateTimeField(allow_null=True)
    calculated_at = serializers.DateTimeField(allow_null=True, help_text="When the newest reward was calculated")


class RewardSummarySerializer(serializers.Serializer[RewardSummary]):
    reward_spec = serializers.IntegerField(source="spec.number")
    since = serializers.CharField(source="time.key")
    by = serializers.CharField(source="time.by", help_text="hour, day or week: how long a stretch is")
    looked_at = serializers.IntegerField(help_text="Decisions looked at: the newest of each stretch")
    sampled = serializers.BooleanField(
        source="partial", help_text="True if not all decisions of that time were looked at"
    )
    rewarded = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Decisions with a component that failed")
    mean = serializers.FloatField(allow_null=True, help_text="Mean reward from 0 to 1")
    progress = RewardProgressSerializer()
    stretches = RewardStretchSerializer(many=True)
    components = RewardComponentSerializer(many=True)
    failures = RewardFailureSerializer(many=True, help_text="The most frequent first")
    lag = FeedbackLagSerializer(allow_null=True, help_text="Time to the first verdict, a Kaplan-Meier estimate")
