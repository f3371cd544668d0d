"""/api/v1/agents/{slug}/experiments and /experiment-groups: experiments on versions of an agent."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.trying import start_agent_experiment, start_agent_group
from decisions.api.editing import get_agent
from models_registry.api.groups import select_groups
from models_registry.api.serializers import (
    ExperimentGroupSerializer,
    ExperimentSerializer,
    ExperimentStartSerializer,
    StartSerializer,
    VersionField,
)
from models_registry.experiments.groups import MOST
from models_registry.models import Experiment, ExperimentGroup, ModelVersion
from models_registry.versions.references import find_version
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class AgentExperimentStartSerializer(ExperimentStartSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    agent_version = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, help_text="Number of the agent's version to try against its current one"
    )
    treatment = VersionField(
        required=False, help_text="The model version that answers for the treatment; default: the champion"
    )


class AgentGroupStartSerializer(StartSerializer):
    """Bounds hold for each of the experiments; those that are left out take their defaults (docs/experiments.md)."""

    agent_versions = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**31 - 1),
        min_length=1,
        max_length=MOST,
        help_text="Numbers of the agent's versions to try against its current one",
    )
    treatments = serializers.ListField(
        child=VersionField(),
        required=False,
        min_length=1,
        max_length=MOST,
        help_text="The model versions that answer for each of them; default: the champion",
    )


class AgentExperiments(APIView):
    """Starts an experiment of a version of the agent against its current one."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="start_agent_experiment",
        request=AgentExperimentStartSerializer,
        responses={"201": ExperimentSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Only units of this agent meet an arm. What wins becomes the agent's current version."""
        agent = get_agent(request, slug)
        given = AgentExperimentStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        workspace = acting(request).workspace
        named = fields.get("treatment")
        started = start_agent_experiment(
            by=acting(request),
            agent_version=generics.get_object_or_404(agent.versions, number=fields["agent_version"]),
            treatment=find_version(workspace, named, field="treatment") if named is not None else None,
            plan=given.read_plan(),
            reason=fields["reason"],
            name=fields["name"],
        )
        return Response(ExperimentSerializer(Experiment.objects.get(pk=started.pk)).data, status=201)


class AgentExperimentGroups(APIView):
    """Starts experiments of several versions of the agent against its current one, at the same time."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="start_agent_experiment_group",
        request=AgentGroupStartSerializer,
        responses={"201": ExperimentGroupSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Each of `agent_versions` is tried with each of `treatments`, 2 to 8 in all."""
        agent = get_agent(request, slug)
        given = AgentGroupStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        workspace = acting(request).workspace
        versions = [generics.get_object_or_404(agent.versions, number=number) for number in fields["agent_versions"]]
        treatments: list[ModelVersion | None] = [
            find_version(workspace, named, field=f"treatments[{index}]")
            for index, named in enumerate(fields.get("treatments", []))
        ]
        started = start_agent_group(
            by=acting(request),
            tried=[(version, treatment) for version in versions for treatment in treatments or [None]],
            plan=given.read_plan(),
            reason=fields["reason"],
            name=fields["name"],
        )
        found = select_groups(ExperimentGroup.objects.filter(pk=started.pk)).get()
        return Response(ExperimentGroupSerializer(found).data, status=201)
