"""/api/v1: what another version would do, of a decision and of an episode. Nothing is recorded."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.serializers.playground import (
    AskAgainSerializer,
    AskedAgainSerializer,
    AskedEpisodeSerializer,
    AskEpisodeSerializer,
)
from decisions.gateway.playground import Edits, ask_again, ask_episode
from decisions.models import Decision, Episode
from models_registry.versions.references import find_version
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class DecisionAsk(APIView):
    """Asks another version about a decision, as it was recorded or edited. Nothing is recorded."""

    scopes = {"POST": Scope.ROUTE_READ}
    calls_out = True  # no transaction is open while the model server answers (workspaces.http.idempotency)

    @extend_schema(
        operation_id="ask_again",
        request=AskAgainSerializer,
        responses={"200": AskedAgainSerializer, "404": ErrorSerializer, "410": ErrorSerializer, "503": ErrorSerializer},
    )
    def post(self, request: Request, pk: Any) -> Response:
        found = Decision.objects.for_workspace(acting(request).workspace).select_related("agent", "agent_version")
        decision = generics.get_object_or_404(found, pk=pk)
        given = AskAgainSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        version = find_version(acting(request).workspace, fields["version"], field="version")
        options = fields.get("options")
        edits = Edits(fields.get("state"), tuple(options) if options is not None else None)
        compared = ask_again(by=acting(request), decision=decision, version=version, edits=edits)
        return Response(AskedAgainSerializer(compared).data)


class EpisodeAsk(APIView):
    """Asks another version about an episode's decisions one by one, each in its recorded state. It stops after the
    first one where the version would do something else: later states would be another policy's."""

    scopes = {"POST": Scope.ROUTE_READ}
    calls_out = True

    @extend_schema(
        operation_id="ask_episode",
        request=AskEpisodeSerializer,
        responses={"200": AskedEpisodeSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request, pk: Any) -> Response:
        episode = generics.get_object_or_404(Episode.objects.for_workspace(acting(request).workspace), pk=pk)
        given = AskEpisodeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        version = find_version(acting(request).workspace, given.validated_data["version"], field="version")
        start = given.validated_data["step"]
        rerun = ask_episode(by=acting(request), episode=episode, version=version, start=start)
        return Response(AskedEpisodeSerializer(rerun).data)
