"""/api/v1/agents/{slug}/experiments: an experiment on versions of an agent."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.trying import start_agent_experiment
from decisions.api.editing import get_agent
from models_registry.models import Experiment
from models_registry.references import find_version
from models_registry.serializers import ExperimentSerializer, ExperimentStartSerializer, VersionField
from workspaces.models import Scope
from workspaces.openapi import ErrorSerializer
from workspaces.permissions import acting


class AgentExperimentStartSerializer(ExperimentStartSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    agent_version = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, help_text="Number of the agent's version to try against its current one"
    )
    treatment = VersionField(required=False, help_text="The version of the model that the treatment asks; the champion")


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
