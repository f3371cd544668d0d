"""/api/v1/agents/{slug}/suggestions: labels that the auto-labeler suggests, and what it learnt."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.editing import get_agent
from decisions.api.serializers.suggestions import AutoLabelerSerializer, SuggestionSerializer, TrainingSerializer
from decisions.labelling.suggesting import find_auto_labeler, request_suggestions
from decisions.models import LabelSuggestion
from workspaces.http.permissions import acting
from workspaces.models import Scope


class SuggestionList(generics.ListAPIView[LabelSuggestion]):
    """Lists the suggested labels of an agent's decisions and episodes, the surest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = SuggestionSerializer

    def get_queryset(self) -> Any:
        return LabelSuggestion.objects.filter(agent=get_agent(self.request, self.kwargs["slug"]))

    @extend_schema(operation_id="suggest_labels", request=None, responses={"202": TrainingSerializer})
    def post(self, request: Request, slug: str) -> Response:
        """Queues a job that trains the auto-labeler on the labels that are there and suggests labels anew. While one is
        queued or running, it answers with that one. What it suggests depends on the agent's actions: the right option,
        the item that belongs first, fields of a structured action, or the verdict."""
        job = request_suggestions(by=acting(request), agent=get_agent(request, slug))
        return Response(TrainingSerializer(job).data, status=202)


class AutoLabelerDetail(APIView):
    """Reads what the auto-labeler of an agent learnt last; null fields where it never did."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="auto_labeler", responses={"200": AutoLabelerSerializer})
    def get(self, request: Request, slug: str) -> Response:
        agent = get_agent(request, slug)
        found = find_auto_labeler(agent)
        return Response(AutoLabelerSerializer(found).data)
