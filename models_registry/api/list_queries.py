"""Query parameters of the registry's lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers

from models_registry.models import CallState, ExperimentState, RegisteredModel, VersionState
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.queries import ListQuery
from workspaces.models import Workspace

M = TypeVar("M", bound=Model)


class VersionListQuery(ListQuery):
    model = serializers.CharField(required=False, max_length=200, help_text="Only this model's versions, by its name")
    agent = serializers.CharField(required=False, max_length=63, help_text="Only versions of this agent's model")
    state = serializers.ChoiceField(
        required=False, choices=VersionState.choices, help_text="Only versions in this state"
    )


class ExperimentListQuery(ListQuery):
    model = serializers.CharField(required=False, max_length=200, help_text="Only this model's, by its name")
    state = serializers.ChoiceField(required=False, choices=ExperimentState.choices, help_text="Only in this state")


class CallListQuery(ListQuery):
    state = serializers.ChoiceField(required=False, choices=CallState.choices, help_text="Only these")
    agent = serializers.CharField(required=False, max_length=200, help_text="Only of this agent's model, by its slug")
    version = serializers.CharField(
        required=False, max_length=200, help_text="Only those that this version was assigned or served"
    )
    backend = serializers.CharField(
        required=False, max_length=200, help_text="Only those that this backend answered, by its name"
    )


def find_models(workspace: Workspace, query: Mapping[str, Any]) -> QuerySet[RegisteredModel]:
    """Finds the models of the query's agent. Raises InvalidInput where there is no such agent with a model."""
    found = RegisteredModel.objects.for_workspace(workspace).filter(agents__slug=query["agent"])
    if not found.exists():
        fault = FieldFault("agent", f"{query['agent']!r} is not an agent with a model in this workspace", "its slug")
        raise InvalidInput("The query is invalid.", faults=[fault])
    return found


def narrow(rows: QuerySet[M], query: Mapping[str, Any]) -> QuerySet[M]:
    """By the name of the model and the state, where they were given."""
    columns = {"model": "registered_model__name", "state": "state"}
    return rows.filter(**{column: query[name] for name, column in columns.items() if name in query})
