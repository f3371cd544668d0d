"""Serializers of calculations, reward components, reward specs and their drafts."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from decisions.models import CreditScheme, RewardDraft, RewardSpec, UnknownParts
from decisions.rewards.judged import find_left_out
from decisions.rewards.spec_content import (
    LARGEST_REWARD,
    MOST_COMPONENTS,
    MOST_JUDGES,
    compare_contents,
    stored_components,
)
from decisions.rewards.specs import content_of
from jobs.models import Job, JobState
from jobs.serializers import JobSerializer
from workspaces.http.bodies import StrictBody

PARAMETER = {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean"]}}


class CalculationSerializer(JobSerializer):
    rewards = serializers.SerializerMethodField(help_text="Number of rewards written; null until it has ended")
    requested_by = serializers.CharField(source="payload.requested_by")

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "rewards", "requested_by"]

    def get_rewards(self, job: Job) -> int | None:
        return int(job.result["rewards"]) if job.result else None


@extend_schema_field(PARAMETER)
class ParametersField(serializers.DictField):
    """Numbers, texts and booleans by name."""


class ComponentSerializer(serializers.Serializer[Any]):
    """One row of the table of components."""

    name = serializers.CharField()
    summary = serializers.CharField()
    horizon = serializers.CharField(help_text="immediate, delayed or strategic")
    scope = serializers.CharField(help_text="decision, or episode if all decisions of an episode get the same value")
    low = serializers.FloatField(help_text="Smallest value, before weighting")
    high = serializers.FloatField()
    weight = serializers.FloatField(help_text="Default weight")
    window_days = serializers.FloatField(allow_null=True, help_text="Default window; null: it never ends")
    missing = serializers.FloatField(allow_null=True, help_text="Default value after the window; null: none counts")
    parameters = ParametersField(help_text="Parameters with their defaults")
    metrics = serializers.ListField(child=serializers.CharField(), help_text="Metrics of feedback that it reads")
    reads = serializers.ListField(child=serializers.CharField(), help_text="What else it reads of the decision")
    says_right = serializers.BooleanField(help_text="Whether it can be the signal of a spec")
    measured = serializers.BooleanField(help_text="Whether a job of its own measures it")
    proxy = serializers.CharField(help_text="What it measures instead of what it stands for; empty if it is no proxy")


class ComponentListSerializer(serializers.Serializer[Any]):
    results = ComponentSerializer(many=True)


class RuleSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Expression over facts, on one line")
    low = serializers.FloatField(help_text="Smallest value that it may return")
    high = serializers.FloatField()


class EntrySerializer(serializers.Serializer[Any]):
    """One component of a spec."""

    name = serializers.CharField()
    weight = serializers.FloatField()
    parameters = ParametersField()
    window_days = serializers.FloatField(allow_null=True, help_text="After this many days, a missing value is final")
    missing = serializers.FloatField(allow_null=True, help_text="The value that counts then; null: none counts")
    rule = RuleSerializer(required=False, help_text="Only where the component is the spec's own")


class ChangeSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Such as components.verdict.weight")  # type: ignore[assignment]
    before = serializers.JSONField(allow_null=True, help_text="Null where it was absent")
    after = serializers.JSONField(allow_null=True, help_text="Null where it is absent")


SCALE = ["clamp", "low", "high", "unknown"]
CONTENT = ["components", *SCALE, "credit", "discount", "signal", "training_low", "training_high", "judges"]


def judges_field(**more: Any) -> serializers.ListField:
    says = "Metrics of the judge models that count while they are calibrated; null: all feedback counts"
    name = serializers.CharField(max_length=64)
    return serializers.ListField(child=name, allow_null=True, max_length=MOST_JUDGES, help_text=says, **more)


class RewardSpecSerializer(serializers.ModelSerializer[RewardSpec]):
    components = serializers.SerializerMethodField()
    signal = serializers.CharField(help_text="Component that says right or wrong; empty for none")
    judges = judges_field()

    class Meta:
        model = RewardSpec
        fields = ["id", "number", *CONTENT, "spec_hash", "created_at"]

    @extend_schema_field(EntrySerializer(many=True))
    def get_components(self, spec: RewardSpec) -> Any:
        return stored_components(content_of(spec))


class RewardSpecDetailSerializer(RewardSpecSerializer):
    """The view gives the spec to compare with as `against`, or None."""

    changes = serializers.SerializerMethodField(help_text="Null without `against`")
    judges_left_out = serializers.SerializerMethodField(
        help_text="By metric, why a judge of the spec does not count now"
    )

    class Meta(RewardSpecSerializer.Meta):
        fields = [*RewardSpecSerializer.Meta.fields, "changes", "judges_left_out"]

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
    def get_judges_left_out(self, spec: RewardSpec) -> Any:
        return find_left_out(spec.agent, spec.judges)

    @extend_schema_field(ChangeSerializer(many=True, allow_null=True))
    def get_changes(self, spec: RewardSpec) -> Any:
        against = self.context["against"]
        if against is None:
            return None
        changes = compare_contents(content_of(against), content_of(spec))
        return [{"field": one.field, "before": one.before, "after": one.after} for one in changes]


class RevisedSpecSerializer(RewardSpecSerializer):
    """The view gives the job as `calculation`, None where nothing changed."""

    calculation = serializers.SerializerMethodField(
        help_text="Job that calculates rewards by this version; null if nothing changed"
    )

    class Meta(RewardSpecSerializer.Meta):
        fields = [*RewardSpecSerializer.Meta.fields, "calculation"]

    @extend_schema_field(CalculationSerializer(allow_null=True))
    def get_calculation(self, spec: RewardSpec) -> Any:
        job = self.context["calculation"]
        return None if job is None else CalculationSerializer(job).data


BOUNDS = ("low", "high", "training_low", "training_high")


class EntryBody(StrictBody):
    name = serializers.CharField(
        help_text="A component of GET /reward-components, or `rule.` with a name for your own rule"
    )
    weight = serializers.FloatField(required=False, help_text="0, or from ±0.000001 to ±1,000,000; default 1")
    parameters = ParametersField(required=False, help_text="Those that differ from the defaults")
    window_days = serializers.FloatField(required=False, allow_null=True, help_text="Above 0, up to 3,650, or null")
    missing = serializers.FloatField(required=False, allow_null=True)
    rule = RuleSerializer(required=False, help_text="Only for a component whose name begins with `rule.`")


class RewardSpecBody(StrictBody):
    """Everything that a reward spec says. What is left out has its default."""

    stated = {
        **{name: {"minimum": -LARGEST_REWARD, "maximum": LARGEST_REWARD} for name in BOUNDS},
        "clamp": {"exclusiveMinimum": 0, "maximum": LARGEST_REWARD},
        "discount": {"exclusiveMinimum": 0, "maximum": 1},
    }
    # For the document alone: `decisions.rewards.spec_content.read_content` reads it, with every fault at once.
    expected_number = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Version that it is based on; or send If-Match"
    )
    components = serializers.ListField(child=EntryBody(), min_length=1, max_length=MOST_COMPONENTS)
    clamp = serializers.FloatField(required=False, help_text="The sum stays within ± this; default 5")
    low = serializers.FloatField(required=False, help_text="The raw reward that becomes 0; default -2")
    high = serializers.FloatField(required=False, help_text="The raw reward that becomes 1; default 2")
    unknown = serializers.ChoiceField(
        choices=UnknownParts.choices, required=False, help_text="What a component without a value does to the sum"
    )
    credit = serializers.ChoiceField(choices=CreditScheme.choices, required=False)
    discount = serializers.FloatField(required=False, help_text="Above 0, up to 1; default 1")
    signal = serializers.CharField(
        required=False, allow_blank=True, help_text="By default the first component that says right or wrong"
    )
    training_low = serializers.FloatField(required=False, help_text="By default what a wrong action earns")
    training_high = serializers.FloatField(required=False, help_text="By default the most that can be earned")
    judges = judges_field(required=False)


class ContentSerializer(serializers.ModelSerializer[RewardSpec]):
    """Everything that the draft says."""

    components = EntrySerializer(many=True)
    signal = serializers.CharField(help_text="Component that says right or wrong; empty for none")
    judges = judges_field()

    class Meta:
        model = RewardSpec
        fields = CONTENT


class MeasuredSerializer(serializers.Serializer[Any]):
    mean = serializers.FloatField()
    low = serializers.FloatField(
        allow_null=True, help_text="Lower end of the 95% interval; null with fewer than two units"
    )
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()


class SideSerializer(serializers.Serializer[Any]):
    valued = serializers.IntegerField(help_text="Decisions with a reward")
    failed = serializers.IntegerField(help_text="Decisions with a component that failed")
    reward = MeasuredSerializer(allow_null=True)
    histogram = serializers.ListField(child=serializers.IntegerField(), help_text="Rewards from 0 to 1 in equal bins")
    failures = serializers.ListField(
        child=serializers.ListField(), help_text="Pairs: a component that failed, and its number of decisions"
    )


class MoverSerializer(serializers.Serializer[Any]):
    decision = serializers.UUIDField()
    before = serializers.FloatField()
    after = serializers.FloatField()
    rank_before = serializers.FloatField(help_text="Share of the decisions with a lower reward")
    rank_after = serializers.FloatField()


class VersionLineSerializer(serializers.Serializer[Any]):
    actor = serializers.CharField(help_text="Model version or policy")
    before = MeasuredSerializer()
    after = MeasuredSerializer()


class LeaderSerializer(serializers.Serializer[Any]):
    actor = serializers.CharField()
    clear = serializers.BooleanField(help_text="Whether its interval is above all others")


class ComparisonSerializer(serializers.Serializer[Any]):
    """By version it is exploratory: each version decided different decisions."""

    population = serializers.IntegerField(help_text="Decisions that can have a reward")
    sampled = serializers.IntegerField(help_text="How many of them are in the sample")
    seed = serializers.IntegerField()
    before = SideSerializer()
    after = SideSerializer()
    both = serializers.IntegerField(help_text="Decisions with a reward before and after")
    changed = serializers.IntegerField(help_text="How many of them have different raw rewards")
    rank_correlation = serializers.FloatField(allow_null=True, help_text="Spearman's; null where all are equal")
    movers = MoverSerializer(many=True)
    versions = VersionLineSerializer(many=True)
    leader_before = LeaderSerializer(allow_null=True)
    leader_after = LeaderSerializer(allow_null=True)


class RewardDraftSerializer(serializers.ModelSerializer[RewardDraft]):
    base = serializers.IntegerField(source="base.number", help_text="Version that it is based on")
    content = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField(
        help_text="State of the job that values past decisions; null once the job is removed"
    )
    progress = serializers.FloatField(source="job.progress", default=None, allow_null=True)
    message = serializers.CharField(source="job.message", default="")
    error = serializers.CharField(source="job.error", default="")
    result = ComparisonSerializer(allow_null=True)
    published = serializers.IntegerField(source="published.number", default=None, allow_null=True)

    class Meta:
        model = RewardDraft
        fields = [
            "id",
            "base",
            "content",
            "state",
            "progress",
            "message",
            "error",
            "result",
            "published",
            "made_by",
            "created_at",
        ]

    @extend_schema_field(ContentSerializer)
    def get_content(self, draft: RewardDraft) -> Any:
        return draft.content

    @extend_schema_field(serializers.ChoiceField(choices=JobState.choices, allow_null=True))
    def get_state(self, draft: RewardDraft) -> Any:
        return None if draft.job is None else draft.job.state
