"""Query parameters of the ledger's lists."""

from __future__ import annotations

from rest_framework import serializers

from decisions.api.serializers.ids import DecisionIdField
from decisions.models import FeedbackSource
from decisions.queries.browse import ENDINGS
from workspaces.http.queries import ListQuery


class DecisionQuery(ListQuery):
    agent = serializers.CharField(required=False, max_length=63, help_text="Only this agent's decisions")
    unit = serializers.CharField(required=False, max_length=200, help_text="Only this unit's decisions")
    item = serializers.CharField(
        required=False, max_length=200, help_text="Only decisions about this item, by its item_ref"
    )
    episode = serializers.UUIDField(required=False, help_text="Only this episode's decisions, by its id")
    session = serializers.CharField(
        required=False, max_length=200, help_text="Only decisions of this session's episodes"
    )
    version = serializers.CharField(
        required=False, max_length=200, help_text="Only what this version decided: its id, filer:7 or filer@champion"
    )
    external_id = serializers.CharField(required=False, max_length=200, help_text="Only what has this external id")
    finish_reason = serializers.ChoiceField(
        ENDINGS,
        required=False,
        help_text="Only answers that ended so; incomplete: length, content_filter, abandoned or cut",
    )


class EpisodeQuery(ListQuery):
    agent = serializers.CharField(required=False, max_length=63, help_text="Only this agent's episodes")
    session = serializers.CharField(required=False, max_length=200, help_text="Only this session's episodes")
    unit = serializers.CharField(
        required=False, max_length=200, help_text="Only episodes of this unit, or of its decisions"
    )
    external_id = serializers.CharField(
        required=False, max_length=200, help_text="Only episodes of this name, or trace:…"
    )


class StepQuery(ListQuery):
    episode = serializers.UUIDField(required=False, help_text="Only this episode's steps")
    decision = DecisionIdField(required=False, help_text="Only this decision's steps")


class FeedbackQuery(ListQuery):
    agent = serializers.CharField(
        required=False, max_length=63, help_text="Only feedback on this agent's decisions and episodes"
    )
    decision = DecisionIdField(required=False, help_text="Only feedback on this decision")
    episode = serializers.UUIDField(required=False, help_text="Only feedback on this episode and its decisions")
    unit = serializers.CharField(required=False, max_length=200, help_text="Only feedback on this unit itself")
    metric = serializers.CharField(required=False, max_length=64, help_text="Only this metric")
    source = serializers.ChoiceField(  # type: ignore[assignment]
        FeedbackSource.values, required=False, help_text="Only from this kind of source"
    )


class RewardQuery(ListQuery):
    agent = serializers.CharField(required=False, max_length=63, help_text="Only rewards of this agent's decisions")
    decision = DecisionIdField(required=False, help_text="Only this decision's rewards")
    episode = serializers.UUIDField(required=False, help_text="Only rewards of this episode's decisions")
    spec = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Only by reward specs of this number"
    )
