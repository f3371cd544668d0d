"""What every answer about a job has; the floors above add what theirs is about."""

from __future__ import annotations

from rest_framework import serializers

from jobs.models import Job


class JobSerializer(serializers.ModelSerializer[Job]):
    state = serializers.CharField(help_text="queued, running, succeeded, dead or cancelled")

    class Meta:
        model = Job
        fields = ["id", "state", "progress", "message", "error", "created_at", "finished_at"]
