"""Bodies and answers of the shadows' endpoints."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers

from decisions.models import Shadow, ShadowPoint, ShadowThen
from models_registry.api.serializers import VersionField
from models_registry.experiments.log import LONGEST_REASON
from training.shadows.shown import list_disagreements, write_sentence
from workspaces.http.bodies import StrictBody


class ShadowStartSerializer(StrictBody):
    agent = serializers.SlugField()
    version = VersionField(help_text="The candidate, a version of the agent's model, not its champion")
    share = serializers.FloatField(required=False, default=1.0, help_text="Share of the decisions, above 0, up to 1")
    min_decisions = serializers.IntegerField(
        required=False, default=500, help_text="Decisions with a reward before the evidence is judged, 1 to 5,000"
    )
    then = serializers.ChoiceField(
        choices=ShadowThen.choices,
        required=False,
        default=ShadowThen.TELL,
        help_text="What to do when the evidence suffices",
    )
    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="Why it is tried; recorded in the audit log")


class ShadowSerializer(serializers.ModelSerializer[Shadow]):
    agent = serializers.CharField(source="agent.slug")
    version_name = serializers.CharField(source="version.__str__")
    answered = serializers.IntegerField(help_text="Decisions that the candidate answered")
    failed = serializers.IntegerField(
        help_text="Decisions that it could not answer; they do not count as disagreements"
    )
    enough_at = serializers.DateTimeField(
        allow_null=True, help_text="When the evidence sufficed; null while it does not"
    )
    waits = serializers.CharField(help_text="Why a canary has not opened although the evidence suffices")
    experiment = serializers.SerializerMethodField(help_text="The canary's id, once it is open")

    class Meta:
        model = Shadow
        fields = [
            "id",
            "agent",
            "version",
            "version_name",
            "state",
            "share",
            "min_decisions",
            "then",
            "reason",
            "requested_by",
            "answered",
            "failed",
            "cost",
            "enough_at",
            "enough_says",
            "waits",
            "experiment",
            "created_at",
            "ended_at",
            "end_reason",
        ]

    def get_experiment(self, shadow: Shadow) -> UUID | None:
        return shadow.experiment_id


class ShadowPointSerializer(serializers.ModelSerializer[ShadowPoint]):
    """Over the newest 5,000 answers. Agreement in [0, 1] and the difference candidate − log in units of reward, both
    with 95% intervals; null where they are not known."""

    tau = serializers.FloatField(allow_null=True, help_text="For rankings: mean Kendall's tau with the recorded order")
    refusals = serializers.ListField(
        child=serializers.CharField(), help_text="Why the difference is not reliable, or not estimated"
    )
    rewarded = serializers.IntegerField(
        help_text="Answers that the difference is based on: with a reward, a propensity and enough exploration; for "
        "written actions, with both rewards"
    )
    lower = serializers.FloatField(allow_null=True, help_text="The lower bound that decided at this look")

    class Meta:
        model = ShadowPoint
        fields = [
            "at",
            "answered",
            "failed",
            "agreement",
            "agreement_low",
            "agreement_high",
            "tau",
            "rewarded",
            "estimate",
            "low",
            "high",
            "lower",
            "logged",
            "effective_sample_size",
            "refusals",
            "passed",
            "look",
        ]


class DisagreementSerializer(serializers.Serializer[Any]):
    """Of a `training.shadows.shown.Disagreement`."""

    decision = serializers.UUIDField()
    action = serializers.JSONField(help_text="The recorded action")
    reward = serializers.FloatField(
        allow_null=True, help_text="Reward of the recorded action, in [0, 1]; null while unknown"
    )
    pick = serializers.JSONField(help_text="What the candidate would do")
    probability = serializers.FloatField(
        allow_null=True, help_text="Probability of its pick; for a ranking, of the first item; null for written actions"
    )
    probability_of_action = serializers.FloatField(
        allow_null=True, help_text="Its probability of the recorded action, likewise"
    )


class ShadowDetailSerializer(ShadowSerializer):
    """With a sentence that says what is known, the newest points, and the latest disagreements."""

    says = serializers.SerializerMethodField(help_text="What is known, in a sentence")
    points = serializers.SerializerMethodField()
    disagreements = serializers.SerializerMethodField()

    class Meta(ShadowSerializer.Meta):
        fields = [*ShadowSerializer.Meta.fields, "says", "points", "disagreements"]

    MOST_POINTS = 200

    def get_says(self, shadow: Shadow) -> str:
        headline = write_sentence(shadow, self._points(shadow)[:1])
        return f"{headline.says} {headline.because}".strip()

    def get_points(self, shadow: Shadow) -> list[dict[str, Any]]:
        newest = list(reversed(self._points(shadow)))
        return list(ShadowPointSerializer(newest, many=True).data)

    def get_disagreements(self, shadow: Shadow) -> list[dict[str, Any]]:
        return list(DisagreementSerializer(list_disagreements(shadow), many=True).data)

    def _points(self, shadow: Shadow) -> list[ShadowPoint]:
        """Newest first, read once."""
        kept: list[ShadowPoint] | None = getattr(self, "_kept", None)
        if kept is None:
            kept = self._kept = list(shadow.points.order_by("-id")[: self.MOST_POINTS])
        return kept
