"""/api/v1: shadows, their figures over time, and stopping them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.agents.current import get_current_agent
from decisions.api.agent_lists import AgentListQuery, of_agent
from decisions.models import Shadow
from models_registry.api.serializers import ReasonSerializer
from models_registry.versions.references import find_version
from training.shadows.serializers import ShadowDetailSerializer, ShadowSerializer, ShadowStartSerializer
from training.shadows.services import ShadowPlan, start_shadow, stop_shadow
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope


class ShadowQuery(generics.GenericAPIView[Any]):
    def get_queryset(self) -> Any:
        shadows = Shadow.objects.for_workspace(acting(self.request).workspace)
        return shadows.select_related("agent", "version__registered_model")


class ShadowList(ShadowQuery, generics.ListAPIView[Shadow]):
    """Lists shadows, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = ShadowSerializer
    query_class = AgentListQuery

    def get_queryset(self) -> Any:
        return of_agent(acting(self.request).workspace, super().get_queryset(), list_query(self))

    @extend_schema(
        operation_id="start_shadow",
        request=ShadowStartSerializer,
        responses={"201": ShadowSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Asks a candidate about the agent's new decisions, beside the request path, from now on."""
        given = ShadowStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        agent = get_current_agent(acting(request), fields["agent"]).agent
        version = find_version(acting(request).workspace, fields["version"], field="version")
        plan = ShadowPlan(fields["share"], fields["min_decisions"], fields["then"])
        shadow = start_shadow(by=acting(request), agent=agent, version=version, plan=plan, reason=fields["reason"])
        return Response(ShadowSerializer(super().get_queryset().get(pk=shadow.pk)).data, status=201)


class ShadowDetail(ShadowQuery, generics.RetrieveAPIView[Shadow]):
    """Reads one shadow, its figures over time, and the latest disagreements."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ShadowDetailSerializer


class ShadowStop(ShadowQuery):
    """Stops a shadow. What it found stays."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="stop_shadow",
        request=ReasonSerializer,
        responses={"200": ShadowSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, pk: UUID) -> Response:
        shadow = generics.get_object_or_404(self.get_queryset(), pk=pk)
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        stop_shadow(by=acting(request), shadow=shadow, reason=given.validated_data["reason"])
        return Response(ShadowSerializer(self.get_queryset().get(pk=pk)).data)
