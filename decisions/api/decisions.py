"""/api/v1: decisions, their labels and feedback. Views parse, call one service, answer."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.batches import IngestListView, IngestView, body_of
from decisions.api.list_queries import DecisionQuery
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.api.serializers.decisions import DecisionDetailSerializer, DecisionSerializer, LabelSerializer
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.labelling.labels import label_decision
from decisions.models import Decision
from decisions.queries.browse import read_ending
from decisions.queries.by_name import FIRST, LAST
from decisions.queries.decision_list import find_equalities, find_page_of_names
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.pagination import NewestFirst
from workspaces.http.parsing import raw_body
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope
from workspaces.storage.ids import uuid7_bound

DECISIONS = BodyDecoder(DecisionIn)
FEEDBACK = BodyDecoder(FeedbackIn)


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
        named = find_page_of_names(workspace, equal, **self.place())
        if "finish_reason" in query:
            decisions = decisions.filter(finish_reason__in=read_ending(query["finish_reason"]))
        return decisions.filter(**equal, **({} if named is None else {"id__in": named}))

    def place(self) -> dict[str, Any]:
        """Where the page that is asked for lies: between which ids, in which direction, how many."""
        assert isinstance(self.paginator, NewestFirst)
        cursor, query = self.paginator.decode_cursor(self.request), list_query(self)
        position = uuid.UUID(cursor.position) if cursor is not None and cursor.position else None
        newer = cursor is not None and cursor.reverse
        # Both ends are left out, so the lower one is the id before the first of its moment.
        low = uuid.UUID(int=max(uuid7_bound(query["since"]).int - 1, 0)) if "since" in query else FIRST
        high = uuid7_bound(query["until"]) if "until" in query else LAST
        if position is not None:
            low, high = (max(low, position), high) if newer else (low, min(high, position))
        offset = cursor.offset if cursor is not None else 0
        return {
            "between": (low, high), "newer": newer, "most": query.get("limit", self.paginator.page_size) + offset + 1
        }  # fmt: skip

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


class FeedbackCreate(IngestView):
    """Records feedback on decisions, episodes or units: early, late, repeated or superseding."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="record_feedback",
        request=body_of(FeedbackIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        batch = FEEDBACK.decode(raw_body(request))
        return self.answer(record_feedback(by=acting(request), items=batch.items), batch)
