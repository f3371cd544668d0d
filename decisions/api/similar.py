"""/api/v1/decisions/{id}/similar: the decisions of the same agent that are most like one."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.serializers.decisions import DecisionSerializer
from decisions.labelling.similar import find_similar
from decisions.models import Decision
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class LikeSerializer(serializers.Serializer[Any]):
    similarity = serializers.FloatField(help_text="0 to 1: cosine of the words of both states (tf-idf)")
    decision = DecisionSerializer()


class SimilarSerializer(serializers.Serializer[Any]):
    compared = serializers.IntegerField(help_text="How many decisions were compared with it")
    results = LikeSerializer(many=True, help_text="At most 50, the most similar first")


class SimilarDecisions(APIView):
    """Finds the decisions of the same agent that are most like this one, by the words of their states."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="similar_decisions", responses={"200": SimilarSerializer, "410": ErrorSerializer})
    def get(self, request: Request, pk: Any) -> Response:
        """Finds the decisions of the same agent that are most like this one. Compared are the newest 2,000, those of
        about the same time, and older ones with its rarest words. Send the IDs of those that are meant to
        `POST /bulk-labels`."""
        decisions = Decision.objects.for_workspace(acting(request).workspace).select_related(
            "agent", "agent_version", "model_version__registered_model", "exposure"
        )
        similar = find_similar(generics.get_object_or_404(decisions, pk=pk))
        rows = decisions.defer("content_hash", "token_ids", "logprobs").in_bulk([one for one, _ in similar.found])
        results = [{"similarity": alike, "decision": rows[one]} for one, alike in similar.found if one in rows]
        return Response(SimilarSerializer({"compared": similar.compared, "results": results}).data)
