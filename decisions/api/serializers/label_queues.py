"""Serializers of labelling queues."""

from __future__ import annotations

from itertools import chain
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from decisions.api.serializers.decisions import DecisionSerializer, LabelSerializer
from decisions.api.serializers.episodes import EpisodeSerializer
from decisions.api.serializers.ids import DecisionIdField
from decisions.labelling.subjects import KINDS
from decisions.models import LabelQueue, QueueItem, QueueState, QueueStrategy, QueueSubject, SkipPolicy, Verdict
from decisions.models.labelling import MAX_OVERLAP
from workspaces.http.bodies import StrictBody, exactly_one_of

PEOPLE = "E-mail addresses of members"


class LabelQueueSerializer(serializers.ModelSerializer[LabelQueue]):
    reviewers = serializers.SerializerMethodField(
        help_text="Names of people who may label; empty: all labellers and admins"
    )
    adjudicators = serializers.SerializerMethodField(
        help_text="Names of people who may resolve disputes, besides admins"
    )

    class Meta:
        model = LabelQueue
        fields = [
            "id",
            "slug",
            "name",
            "subject",
            "filters",
            "strategy",
            "overlap",
            "guidelines",
            "gold_share",
            "skip_policy",
            "hold_seconds",
            "blind",
            "state",
            "reviewers",
            "adjudicators",
            "created_at",
        ]

    def get_reviewers(self, queue: LabelQueue) -> list[str]:
        return sorted(str(user) for user in queue.reviewers.all())

    def get_adjudicators(self, queue: LabelQueue) -> list[str]:
        return sorted(str(user) for user in queue.adjudicators.all())


class ProgressSerializer(serializers.Serializer[Any]):
    """Counts of the queue's decisions or episodes."""

    waiting = serializers.IntegerField(help_text="Found by the queue, but not fully labelled")
    disputed = serializers.IntegerField(help_text="Those that wait for an adjudicator")
    resolved = serializers.IntegerField(help_text="Those with a verdict from this queue")
    dropped = serializers.IntegerField(help_text="Those that were skipped or erased")
    gold = serializers.IntegerField(help_text="Gold items")
    held = serializers.IntegerField(help_text="Reservations that reviewers hold now")
    labels = serializers.IntegerField(help_text="Labels that reviewers gave")


class LabelQueueDetailSerializer(LabelQueueSerializer):
    progress = ProgressSerializer()

    class Meta(LabelQueueSerializer.Meta):
        fields = [*LabelQueueSerializer.Meta.fields, "progress"]


class QueueChangeSerializer(StrictBody):
    """What may change after the first label."""

    name = serializers.CharField(max_length=200, required=False)
    guidelines = serializers.CharField(max_length=20_000, allow_blank=True, required=False)
    gold_share = serializers.FloatField(
        min_value=0, max_value=0.5, required=False, help_text="Share of a reviewer's turns that are gold items"
    )
    skip_policy = serializers.ChoiceField(
        choices=SkipPolicy.choices,
        required=False,
        help_text="What happens to a decision or an episode that a reviewer skips",
    )
    hold_seconds = serializers.IntegerField(
        min_value=1, max_value=86_400, required=False, help_text="How long a reviewer's reservation lasts"
    )
    blind = serializers.BooleanField(required=False, help_text="Adjudicators do not see who gave which label")
    reviewers = serializers.ListField(child=serializers.EmailField(), max_length=100, required=False, help_text=PEOPLE)
    adjudicators = serializers.ListField(
        child=serializers.EmailField(), max_length=100, required=False, help_text=PEOPLE
    )


class QueuePatchSerializer(QueueChangeSerializer):
    state = serializers.ChoiceField(choices=QueueState.choices, required=False)


class QueueCreateSerializer(QueueChangeSerializer):
    stated = {"filters": {"propertyNames": {"enum": sorted({*chain(*(kind.filters for kind in KINDS.values()))})}}}
    slug = serializers.SlugField(max_length=63)
    name = serializers.CharField(max_length=200)
    subject = serializers.ChoiceField(
        choices=QueueSubject.choices, required=False, help_text="What reviewers label; default: decisions"
    )
    filters = serializers.DictField(
        child=serializers.CharField(max_length=200, allow_blank=True),
        required=False,
        help_text="Parameters of the list of decisions (agent, verdict, version, arm, since, finish_reason, q; "
        "without a verdict: decisions that have none) or of episodes (agent, session, since, state, q; only those "
        "without a verdict)",
    )
    strategy = serializers.ChoiceField(choices=QueueStrategy.choices, required=False)
    overlap = serializers.IntegerField(
        min_value=1, max_value=MAX_OVERLAP, required=False, help_text="Reviewers of each decision or episode"
    )


class NextSerializer(serializers.Serializer[Any]):
    decision = DecisionSerializer(allow_null=True, help_text="Null if none is left for the caller")
    episode = EpisodeSerializer(
        allow_null=True, help_text="The same in a queue of episodes; its steps are at /episodes/{id}"
    )
    expires_at = serializers.DateTimeField(allow_null=True, help_text="From this time on, others may get it")
    draft = serializers.JSONField(allow_null=True)
    searching = serializers.BooleanField(help_text="True if none was found yet. Ask again to continue the search")


class DraftSerializer(StrictBody):
    verdict = serializers.ChoiceField(choices=Verdict.choices, required=False)
    corrected_action = serializers.JSONField(required=False, allow_null=True)
    note = serializers.CharField(max_length=2_000, allow_blank=True, required=False)


class ItemSerializer(serializers.Serializer[Any]):
    decision = serializers.UUIDField(allow_null=True, help_text="Null in a queue of episodes")
    episode = serializers.UUIDField(allow_null=True, help_text="Null in a queue of decisions")
    state = serializers.CharField(help_text="waiting, disputed, resolved or dropped")
    label = LabelSerializer(allow_null=True)  # type: ignore[assignment]


class DisputedLabelSerializer(serializers.Serializer[Any]):
    labelled_by = serializers.CharField(allow_null=True, help_text="Null in a blind queue")
    verdict = serializers.CharField()
    corrected_action = serializers.JSONField(allow_null=True)
    note = serializers.CharField()


class DisputeSerializer(serializers.ModelSerializer[QueueItem]):
    decision = serializers.UUIDField(source="decision_id", allow_null=True)
    episode = serializers.UUIDField(source="episode_id", allow_null=True)
    labels = serializers.SerializerMethodField()

    class Meta:
        model = QueueItem
        fields = ["decision", "episode", "labels"]

    @extend_schema_field(DisputedLabelSerializer(many=True))
    def get_labels(self, item: Any) -> list[dict[str, Any]]:
        return [
            {
                "labelled_by": None if item.queue.blind else place.label.labelled_by,
                "verdict": place.label.verdict,
                "corrected_action": place.label.corrected_action,
                "note": place.label.note,
            }
            for place in item.labelled
        ]


class PairSerializer(serializers.Serializer[Any]):
    reviewers = serializers.ListField(child=serializers.CharField(), min_length=2, max_length=2)
    decisions = serializers.IntegerField(source="items", help_text="Decisions, or episodes, that both labelled")
    agreed = serializers.FloatField(help_text="Share of them that both labelled alike")
    alpha = serializers.FloatField(allow_null=True)


class ReviewedSerializer(serializers.Serializer[Any]):
    reviewer = serializers.CharField()
    labels = serializers.IntegerField()
    gold = serializers.IntegerField(help_text="Gold items answered")
    accuracy = serializers.FloatField(allow_null=True, help_text="Share of right answers to gold items")
    pace = serializers.FloatField(allow_null=True, help_text="Median seconds from one label to the next")


class AgreementSerializer(serializers.Serializer[Any]):
    decisions = serializers.IntegerField(source="items", help_text="Decisions, or episodes, with two or more labels")
    alpha = serializers.FloatField(allow_null=True, help_text="Krippendorff's α, nominal; null where it is not defined")
    verdict_alpha = serializers.FloatField(allow_null=True, help_text="The same for verdicts, corrections ignored")
    pairs = PairSerializer(many=True)
    reviewers = ReviewedSerializer(many=True)


class GoldSerializer(StrictBody):
    """One of both, as the queue asks about decisions or episodes."""

    together = exactly_one_of("decisions", "episodes")
    decisions = serializers.ListField(
        child=DecisionIdField(),
        min_length=1,
        max_length=500,
        required=False,
        help_text="Decisions whose verdict comes from a label, or through an app from a person who says what is right",
    )
    episodes = serializers.ListField(
        child=serializers.UUIDField(),
        min_length=1,
        max_length=500,
        required=False,
        help_text="Episodes whose verdict comes from a label",
    )


class GoldAddedSerializer(serializers.Serializer[Any]):
    added = serializers.IntegerField(help_text="How many of them were not in the queue yet")
