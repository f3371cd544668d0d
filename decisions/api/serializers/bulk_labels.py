"""Serializers of labels in bulk."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.api.serializers.batches import ItemErrorSerializer
from decisions.api.serializers.ids import DecisionIdField
from decisions.editors.corrections import CORRECTING
from decisions.labelling.matching import MOST_CHOSEN, MOST_IN_BULK
from decisions.labelling.subjects import KINDS
from decisions.models import BulkLabel, QueueSubject, Verdict
from decisions.queries.browse import VERDICTS, WINDOWS
from workspaces.http.bodies import StrictBody, any_of, exactly_one_of


class AskedSerializer(StrictBody):
    """As a dry run answered it."""

    matching = serializers.IntegerField(min_value=0, max_value=MOST_IN_BULK, help_text="Decisions that match")
    labelled = serializers.IntegerField(
        min_value=0, max_value=MOST_IN_BULK, help_text="How many of them have a person's label"
    )
    before = serializers.UUIDField(
        required=False, allow_null=True, help_text="Only decisions with a smaller ID: those that existed at the dry run"
    )
    digest = serializers.CharField(max_length=64, help_text="Digest of the filters or IDs")


STATED_FILTERS = {
    "propertyNames": {"enum": list(KINDS[QueueSubject.DECISION.value].filters)},
    "properties": {
        "arm": any_of("", "control", "treatment"),
        "since": any_of("", *WINDOWS),
        "verdict": any_of("", *VERDICTS),
    },
}


class BulkLabelCreateSerializer(StrictBody):
    stated = {"filters": STATED_FILTERS}
    together = {
        "allOf": [
            exactly_one_of("filters", "decisions"),
            {"anyOf": [{"required": ["asked"]}, {"properties": {"dry_run": {"const": True}}, "required": ["dry_run"]}]},
            {
                "anyOf": [
                    {"properties": {"verdict": any_of(*sorted(CORRECTING))}},
                    {"properties": {"corrected_action": {"type": "null"}}},
                ]
            },
        ]
    }
    filters = serializers.DictField(
        child=serializers.CharField(max_length=200, allow_blank=True),
        required=False,
        help_text="Parameters of the list of decisions: agent, verdict, version, arm, since, finish_reason, q",
    )
    decisions = serializers.ListField(
        child=DecisionIdField(),
        min_length=1,
        max_length=MOST_CHOSEN,
        required=False,
        help_text="IDs of decisions, instead of filters",
    )
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    corrected_action = serializers.CharField(
        max_length=200,
        required=False,
        allow_null=True,
        help_text="The right option. Decisions that chose it, or did not offer it, are left out",
    )
    replaces = serializers.BooleanField(
        default=False, help_text="Also label decisions that have a person's label already. The new label counts"
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only count; write nothing")
    before = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="For a dry run: only decisions with a smaller ID, such as `older` of the last one",
    )
    asked = AskedSerializer(required=False, help_text="From the answer to a dry run; required without dry_run")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if ("filters" in given) == ("decisions" in given):
            raise serializers.ValidationError({"filters": ["Give either filters or decisions."]})
        if not given["dry_run"] and "asked" not in given:
            raise serializers.ValidationError({"asked": ["Do a dry run first, and send its asked."]})
        return given


class CountSerializer(serializers.Serializer[Any]):
    asked = AskedSerializer(allow_null=True, help_text="Send this back to label; null if too many match")
    to_label = serializers.IntegerField(help_text="Decisions that would get a label")
    unfit = serializers.IntegerField(help_text="Decisions that the corrected action does not fit")
    too_many = serializers.BooleanField(help_text=f"More than {MOST_IN_BULK:,} match")
    older = serializers.UUIDField(
        allow_null=True, help_text="Decisions before this ID were not looked at; null where all were"
    )
    errors = ItemErrorSerializer(  # type: ignore[assignment]
        many=True, read_only=True, help_text="IDs that name no decision here, by their places in `decisions`"
    )


class BulkLabelSerializer(serializers.ModelSerializer[BulkLabel]):
    state = serializers.CharField(help_text="queued, running, stopping, done, stopped or undone")
    filters = serializers.DictField(
        child=serializers.CharField(), help_text="Without q; empty where decisions were given by ID"
    )
    replaces = serializers.BooleanField()
    matching = serializers.IntegerField(help_text="Decisions that matched")
    chosen = serializers.IntegerField(help_text="How many of them were to get a label")
    done = serializers.IntegerField(help_text="How many of those have been processed")
    labelled = serializers.IntegerField(help_text="Labels that were given")
    labelled_by = serializers.CharField(help_text="A person's name, or the key that labelled")
    error = serializers.SerializerMethodField(help_text="Why its job failed")

    class Meta:
        model = BulkLabel
        fields = [
            "id", "state", "verdict", "corrected_action", "filters", "replaces", "matching", "chosen", "done",
            "labelled", "labelled_by", "error", "created_at", "undone_at",
        ]  # fmt: skip

    def get_error(self, bulk: BulkLabel) -> str:
        return bulk.job.error if bulk.job is not None else ""


class BulkLabelGivenSerializer(BulkLabelSerializer):
    errors = ItemErrorSerializer(  # type: ignore[assignment]
        many=True, read_only=True, help_text="IDs that were left out, by their places in `decisions`"
    )

    class Meta(BulkLabelSerializer.Meta):
        fields = [*BulkLabelSerializer.Meta.fields, "errors"]
