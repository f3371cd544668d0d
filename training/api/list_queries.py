"""Query parameters of the lists of runs."""

from __future__ import annotations

from rest_framework import serializers

from decisions.api.agent_lists import AgentListQuery
from training.models.run import RUN_STATE_CHOICES


class RunListQuery(AgentListQuery):
    tag = serializers.CharField(required=False, max_length=50, help_text="Only runs with this tag")
    state = serializers.ChoiceField(required=False, choices=RUN_STATE_CHOICES, help_text="Only runs in this state")
    version = serializers.CharField(
        required=False, max_length=200, help_text="Only the run that made this version: its id, filer:7, filer@champion"
    )
