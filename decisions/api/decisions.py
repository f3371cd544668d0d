"""/api/v1: decisions and their labels. Views parse, call one service, answer."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.batches import IngestListView, body_of
from decisions.api.list_places import find_place
from decisions.api.list_queries import DecisionQuery
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.api.serializers.decisions import DecisionDetailSerializer, DecisionSerializer, LabelSerializer
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.schemas import DecisionIn
from decisions.labelling.labels import label_decision
from decisions.models import Decision
from decisions.queries.browse import read_ending
from decisions.queries.decision_list import find_equalities, find_page_of_names
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import raw_body
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope

DECISIONS = BodyDecoder(DecisionIn)


class DecisionList(IngestListView[Decision]):
    """Lists decisions, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = DecisionSerializer
    query_class = DecisionQuery

    def get_queryset(self) -> Any:
        workspace, query = acting(self.request).workspace, list_query(self)
        decisions = (
            Decision.objects.for_workspace(workspace)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .defer("content_hash", "token_ids", "logprobs")
        )
        equal = find_equalities(workspace, query)
        named = find_page_of_names(workspace, equal, **find_place(self))
        if "finish_reason" in query:
            decisions = decisions.filter(finish_reason__in=read_ending(query["finish_reason"]))
        return decisions.filter(**equal, **({} if named is None else {"id__in": named}))

    @extend_schema(
        operation_id="record_decisions",
        request=body_of(DecisionIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        """Records decisions that were made elsewhere."""
        batch = DECISIONS.decode(raw_body(request))
        return self.answer(record_decisions(by=acting(request), items=batch.items), batch)


class DecisionDetail(generics.RetrieveAPIView[Decision]):
    """Reads one decision with its feedback, labels and rewards."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = DecisionDetailSerializer

    def get_queryset(self) -> Any:
        return (
            Decision.objects.for_workspace(acting(self.request).workspace)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .prefetch_related("feedback", "labels__reviewer", "rewards__spec")
        )


class DecisionLabels(APIView):
    """Records a reviewer's verdict on a decision, as a label and as feedback."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="label_decision",
        request=LabelSerializer,
        responses={"201": LabelSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, pk: Any) -> Response:
        decision = generics.get_object_or_404(Decision.objects.for_workspace(acting(request).workspace), pk=pk)
        given = LabelSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        label = label_decision(by=acting(request), decision=decision, **given.validated_data)
        return Response(LabelSerializer(label).data, status=201)
