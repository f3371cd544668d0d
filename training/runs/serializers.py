"""Serializers of runs: what starts them, their state, events and samples."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from models_registry.api.serializers import VersionField
from training.engine.spec.methods import TRAINING
from training.engine.spec.samples import Reply
from training.models import RunEvent, TrainingRun
from training.runs.reached import tell_reached
from training.runs.shown.samples import SampleLine, ShownSamples
from workspaces.http.bodies import StrictBody
from workspaces.notes import STATED_TAGS


class RunSerializer(serializers.ModelSerializer[TrainingRun]):
    agent = serializers.CharField(source="agent.slug")
    produced_version = serializers.SerializerMethodField()
    scores = serializers.SerializerMethodField()
    reached = serializers.SerializerMethodField(
        help_text="In one sentence, what the version, the most frequent action and a plain classifier of words reach on"
        " held-out rows; empty where that was not measured"
    )

    class Meta:
        model = TrainingRun
        fields = [
            "id",
            "agent",
            "method",
            "state",
            "dataset",
            "heldout",
            "replay",
            "base_version",
            "base_model",
            "produced_version",
            "spec",
            "estimate",
            "tags",
            "notes",
            "progress",
            "message",
            "metrics",
            "scores",
            "reached",
            "error",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_produced_version(self, run: TrainingRun) -> str | None:
        return str(run.produced_version) if run.produced_version else None

    def get_reached(self, run: TrainingRun) -> str:
        return tell_reached(run)

    def get_scores(self, run: TrainingRun) -> dict[str, Any] | None:
        """Base and trained on held-out rows, an interval beside every mean; `plain`: a classifier of words taught from
        the same feedback, and the trained model less that. Of held-out tasks `accuracy` is the `serving_success`, by
        the policy that serves with its exploration, and `greedy_success` that of the likeliest actions. Left out of the
        rows are `unanswered` decisions, which were wrong and do not name the right action, and `without_feedback`
        ones."""
        found = getattr(run, "evaluation", None)
        if found is None:
            return None
        return {
            "scores": found.named_scores,
            "differences": found.named_differences,
            "plain": found.plain,
            "rows": found.rows,
            "unanswered": found.unanswered,
            "without_feedback": found.without_feedback,
        }


class _PlanSerializer(StrictBody):
    """What a run learns, from what."""

    agent = serializers.SlugField()
    method = serializers.ChoiceField(choices=list(TRAINING))
    dataset = serializers.UUIDField()
    heldout = serializers.UUIDField(required=False, allow_null=True)
    replay = serializers.UUIDField(required=False, allow_null=True)
    base_version = VersionField(required=False, allow_null=True)
    base_model = serializers.CharField(max_length=300, required=False, default="", allow_blank=True)
    settings = serializers.DictField(required=False, default=dict)


class RunStartSerializer(_PlanSerializer):
    """`settings` are fields of the engine's run spec (docs/engine.md)."""

    stated = {"tags": STATED_TAGS}
    tags = serializers.ListField(child=serializers.CharField(max_length=50), required=False, default=list)
    notes = serializers.CharField(max_length=5000, required=False, default="", allow_blank=True)
    dry_run = serializers.BooleanField(default=False, help_text="Only check, and estimate what the run would need")


class RunCheckSerializer(serializers.Serializer[Any]):
    """A run that would start: its spec without paths, and what it would need."""

    spec = serializers.DictField()
    estimate = serializers.DictField(
        allow_null=True, help_text="Bytes of memory and disk, and seconds; null for a base of unknown size"
    )
    unchecked = serializers.CharField(
        help_text="What of the base is checked only once it is downloaded, and why; empty where nothing is"
    )


class SweepStartSerializer(_PlanSerializer):
    """As a run, and a `grid`: names of settings, dotted, with the values to try; at most 24 runs in all."""

    grid = serializers.DictField(child=serializers.ListField(min_length=1, max_length=24))


class SweepSerializer(serializers.Serializer[Any]):
    tag = serializers.CharField(help_text="Tag of all its runs")
    runs = serializers.ListField(child=serializers.UUIDField())


class RunNoteSerializer(StrictBody):
    """Either may be left out, and stays."""

    stated = {"tags": STATED_TAGS}
    tags = serializers.ListField(child=serializers.CharField(max_length=50), required=False)
    notes = serializers.CharField(max_length=5000, required=False, allow_blank=True)


class TrainNewSerializer(StrictBody):
    agent = serializers.SlugField()
    base_model = serializers.CharField(
        max_length=300,
        required=False,
        default="",
        allow_blank=True,
        help_text="Of a first model: tiny, a folder or a hub id; default: the instance's base model",
    )
    lora = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Of a first model from a named base: true trains an adapter, false all weights; default: all weights "
        "where they fit this machine",
    )


class RunEventSerializer(serializers.ModelSerializer[RunEvent]):
    class Meta:
        model = RunEvent
        fields = ["id", "attempt", "sequence", "kind", "details", "at"]


class SampleReplySerializer(serializers.Serializer[Reply]):
    said = serializers.CharField(help_text="The likeliest option, or the text that the model wrote")
    p = serializers.FloatField(help_text="Its probability")
    right = serializers.BooleanField(allow_null=True, help_text="Null if not known")
    wrote = serializers.CharField(
        allow_null=True, help_text="For options: what the model writes when it may write anything"
    )
    valid = serializers.BooleanField(
        allow_null=True, help_text="Whether that is an option; for a text, whether it is JSON as required"
    )


class SampleRowSerializer(serializers.Serializer[SampleLine]):
    id = serializers.CharField(source="asked.id")
    system = serializers.CharField(
        source="asked.system", allow_null=True, help_text="The system prompt before the prompt; null without one"
    )
    prompt = serializers.CharField(source="asked.prompt", help_text="Texts are cut to 600 characters")
    answer = serializers.CharField(source="asked.answer", allow_null=True, help_text="The right answer, if known")
    action = serializers.CharField(source="asked.action", allow_null=True, help_text="The logged action")
    reward = serializers.FloatField(source="asked.reward", allow_null=True)
    before = SampleReplySerializer(help_text="Reply of the weights before training")
    now = SampleReplySerializer(help_text="Reply of the newest weights")


class RunSamplesSerializer(serializers.Serializer[ShownSamples]):
    held_out = serializers.BooleanField(help_text="True if the rows are held out; false if the run learns from them")
    step = serializers.IntegerField(allow_null=True, help_text="Number of updates before the newest replies")
    rows = SampleRowSerializer(source="lines", many=True)
