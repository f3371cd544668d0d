"""Serializers of calculations."""

from __future__ import annotations

from rest_framework import serializers

from jobs.models import Job


class CalculationSerializer(serializers.ModelSerializer[Job]):
    state = serializers.CharField(help_text="queued, running, succeeded, dead or cancelled")
    rewards = serializers.SerializerMethodField(help_text="How many rewards it has written, once it is over")
    requested_by = serializers.CharField(source="payload.requested_by")

    class Meta:
        model = Job
        fields = [
            "id",
            "state",
            "progress",
            "message",
            "error",
            "rewards",
            "requested_by",
            "created_at",
            "finished_at",
        ]

    def get_rewards(self, job: Job) -> int | None:
        return int(job.result["rewards"]) if job.result else None
