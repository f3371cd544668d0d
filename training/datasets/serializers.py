"""Serializers of datasets, and of the jobs that make them."""

from __future__ import annotations

from uuid import UUID

from rest_framework import serializers

from jobs.models import Job
from jobs.serializers import JobSerializer
from training.models import LEDGER_KINDS, DatasetKind, DatasetSnapshot
from training.rows.labels import LEAST_CONFIDENCE
from workspaces.http.bodies import StrictBody


class DatasetSerializer(serializers.ModelSerializer[DatasetSnapshot]):
    agent = serializers.CharField(source="agent.slug")
    digest = serializers.CharField(source="artifact.digest")

    class Meta:
        model = DatasetSnapshot
        fields = [
            "id",
            "name",
            "agent",
            "kind",
            "rows",
            "digest",
            "query",
            "statistics",
            "created_at",
            "erased_rows",
            "marked_at",
        ]


class FreezingSerializer(JobSerializer):
    agent = serializers.CharField(source="payload.agent")
    name = serializers.CharField(source="payload.name")
    dataset = serializers.SerializerMethodField(help_text="The dataset's id, once it exists")
    held_out = serializers.SerializerMethodField(
        help_text="The id of the dataset that was held out of it, if requested"
    )
    demonstrations = serializers.SerializerMethodField(
        help_text="For tasks: the id of the dataset of demonstrations, if requested"
    )
    run = serializers.SerializerMethodField(
        help_text="For training on new decisions: the run's id, once it exists; of a first model, that of its last run"
    )

    best = serializers.SerializerMethodField(
        help_text="For training on new decisions: the ID of the comparison of candidates, once it exists"
    )

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "agent", "name", "dataset", "held_out", "demonstrations", "run", "best"]

    def get_dataset(self, job: Job) -> UUID | None:
        return UUID(job.result["dataset"]) if job.result else None

    def get_held_out(self, job: Job) -> UUID | None:
        return self._find(job, "held_out")

    def get_demonstrations(self, job: Job) -> UUID | None:
        return self._find(job, "demonstrations")

    def get_run(self, job: Job) -> UUID | None:
        return self._find(job, "run")

    def get_best(self, job: Job) -> UUID | None:
        return self._find(job, "best")

    def _find(self, job: Job, name: str) -> UUID | None:
        found = (job.result or {}).get(name)
        return UUID(found) if found else None


class DatasetCreateSerializer(StrictBody):
    agent = serializers.SlugField()
    name = serializers.CharField(max_length=200)
    kind = serializers.ChoiceField(
        choices=[(kind.value, kind.label) for kind in LEDGER_KINDS], default=DatasetKind.LOGGED
    )
    only_new = serializers.BooleanField(default=False, help_text="Only decisions that no run has learnt from")
    suggestions = serializers.BooleanField(
        default=False, help_text="For labelled and preferences: also make rows from the auto-labeler's suggestions"
    )
    least_confidence = serializers.FloatField(
        default=LEAST_CONFIDENCE,
        min_value=0.0,
        max_value=1.0,
        help_text="Lowest confidence of a suggestion that makes a row",
    )
    since = serializers.DateTimeField(
        default=None, allow_null=True, help_text="Only decisions recorded at or after this time"
    )
    until = serializers.DateTimeField(
        default=None, allow_null=True, help_text="Only decisions recorded before this time"
    )
    policy = serializers.CharField(
        default=None,
        allow_null=True,
        max_length=200,
        help_text="Who decided: a version of the agent's model, such as filer:3, or the name of an outside model",
    )
    unit = serializers.CharField(default=None, allow_null=True, max_length=200)
    min_reward = serializers.FloatField(
        default=None, allow_null=True, help_text="For logged and text: the smallest raw reward"
    )
    with_propensity = serializers.BooleanField(default=False, help_text="Only decisions with a propensity")
    unjudged = serializers.BooleanField(
        default=False,
        help_text="For logged: also the newest decisions that nobody judged, at most as many as have a reward; "
        "their rows have no reward. Only posterior learns from them",
    )
    incomplete = serializers.BooleanField(
        default=False,
        help_text="Also incomplete answers: those with the finish reason length, content_filter, abandoned or cut",
    )
    reward_spec = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="For logged and text: rewards by this version of the agent's reward spec; default: the newest",
    )
    synthetic_negatives = serializers.BooleanField(
        default=False,
        help_text="Add rows for wrong actions that nobody took, marked as synthetic; not for labelled",
    )
    held_out = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="About this share of the rows, up to 0.5, becomes a second dataset; units, episodes and texts that "
        "are nearly the same stay together",
    )
