"""Serializers of imports."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from decisions.importers.records import LONGEST_NAME
from jobs.models import Job
from jobs.serializers import JobSerializer
from training.imports.plan import DECISIONS, FORMAT_CHOICES, LABELLED, ImportPlan
from training.imports.uploads import LARGEST_UPLOAD
from workspaces.http.bodies import StrictBody, any_of

COUNTS = ("rows", "decisions", "steps", "feedback", "repeated", "refused")


class ImportPlanBody(StrictBody):
    """What is to be done with the file, whichever way it comes."""

    together = {
        "anyOf": [{"properties": {"what": any_of(DECISIONS)}}, {"required": ["agent", "name"]}],
    }
    what = serializers.ChoiceField(choices=[(LABELLED, "rows for a dataset"), (DECISIONS, "decisions for the ledger")])
    agent = serializers.CharField(
        max_length=63, required=False, help_text="Slug of the agent. For decisions: overrides the file"
    )
    name = serializers.CharField(max_length=200, required=False, help_text="For rows: the dataset's name")
    format = serializers.ChoiceField(
        choices=FORMAT_CHOICES, default="jsonl", help_text="For decisions: format of the file"
    )
    create_agents = serializers.BooleanField(default=False, help_text="For decisions: create missing agents")
    leave_out_faulty = serializers.BooleanField(
        default=False, help_text="For rows: import the others where some lines have faults"
    )
    observed_at = serializers.DateTimeField(required=False, help_text="Time of decisions without one")
    policy = serializers.CharField(
        max_length=LONGEST_NAME, required=False, help_text="Policy name of decisions without one"
    )

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        needed = [name for name in ("agent", "name") if given["what"] == LABELLED and not given.get(name)]
        if needed:
            raise serializers.ValidationError({name: ["is required for rows for a dataset"] for name in needed})
        return given

    @property
    def plan(self) -> ImportPlan:
        """Of a valid body."""
        return ImportPlan(
            **{name: self.validated_data[name] for name in ImportPlan.__struct_fields__ if name in self.validated_data}
        )


class ImportBodySerializer(ImportPlanBody):
    file = serializers.CharField(
        max_length=200, help_text="Name of the file; its ending gives the format, such as rows.jsonl"
    )
    content = serializers.CharField(
        trim_whitespace=False, help_text="Text of the file, within the size limit of a body"
    )

    def validate_file(self, name: str) -> str:
        if PurePath(name).name in {"", ".", ".."}:
            raise serializers.ValidationError("Give a file's name, such as rows.jsonl.")
        return name


class ImportUploadSerializer(ImportPlanBody):
    file = serializers.FileField(help_text=f"Up to {LARGEST_UPLOAD >> 20} MiB")


class ImportSerializer(JobSerializer):
    what = serializers.CharField(source="payload.what", help_text="labelled or decisions")
    file = serializers.CharField(source="payload.file")
    dataset = serializers.SerializerMethodField(help_text="For rows: the dataset's id, once it exists")
    counts = serializers.SerializerMethodField(help_text="Counts at the end: rows, or decisions, steps, feedback, …")
    refusals = serializers.SerializerMethodField(help_text="Records that were left out, the first 20 of them")

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "what", "file", "dataset", "counts", "refusals"]

    def get_dataset(self, job: Job) -> UUID | None:
        found = (job.result or {}).get("dataset")
        return UUID(found) if found else None

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_counts(self, job: Job) -> dict[str, int]:
        return {name: job.result[name] for name in COUNTS if name in job.result} if job.result else {}

    def get_refusals(self, job: Job) -> list[str]:
        return list((job.result or {}).get("refusals", []))
