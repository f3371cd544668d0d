"""Query parameters of the scores of suites."""

from __future__ import annotations

from rest_framework import serializers

from workspaces.http.queries import ListQuery


class VersionScoreQuery(ListQuery):
    against = serializers.CharField(
        required=False, max_length=200, help_text="Another version, to compare with in pairs"
    )
