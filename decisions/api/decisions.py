"""/api/v1: decisions, their labels and feedback. Views parse, call one service, answer."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.batches import IngestListView, IngestView, body_of
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.api.serializers.decisions import DecisionDetailSerializer, DecisionSerializer, LabelSerializer
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.labelling.labels import label_decision
from decisions.models import Agent, Decision
from decisions.queries.browse import ENDINGS, read_ending
from decisions.queries.by_name import find_page_of_unit
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.pagination import NewestFirst
from workspaces.http.parsing import raw_body, text_parameter
from workspaces.http.permissions import acting
from workspaces.models import Scope

DECISIONS = BodyDecoder(DecisionIn)
FEEDBACK = BodyDecoder(FeedbackIn)


class DecisionList(IngestListView[Decision]):
    """Lists decisions, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = DecisionSerializer

    def get_queryset(self) -> Any:
        workspace = acting(self.request).workspace
        decisions = (
            Decision.objects.for_workspace(workspace)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .defer("content_hash", "token_ids", "logprobs")
        )
        agent = None
        if slug := text_parameter(self.request, "agent"):
            # By its id: joined by its slug, an agent that decided little is looked for in the whole ledger.
            agent = Agent.objects.for_workspace(workspace).filter(slug=slug).values_list("id", flat=True).first()
            if agent is None:
                return decisions.none()
            decisions = decisions.filter(agent=agent)
        if reason := text_parameter(self.request, "finish_reason"):
            decisions = decisions.filter(finish_reason__in=read_ending(reason))
        if item := text_parameter(self.request, "item"):
            decisions = decisions.filter(item_ref=item)
        if unit := text_parameter(self.request, "unit"):
            decisions = decisions.filter(unit=unit)
            if not item:
                decisions = decisions.filter(id__in=find_page_of_unit(workspace, unit, agent=agent, **self.place()))
        return decisions

    def place(self) -> dict[str, Any]:
        """Where the page that is asked for lies: from which id on, in which direction, how many."""
        assert isinstance(self.paginator, NewestFirst)
        cursor = self.paginator.decode_cursor(self.request)
        return {
            "after": uuid.UUID(cursor.position) if cursor is not None and cursor.position else None,
            "newer": cursor is not None and cursor.reverse,
            "most": (self.paginator.get_page_size(self.request) or 0)
            + (cursor.offset if cursor is not None else 0)
            + 1,
        }

    @extend_schema(
        parameters=[
            OpenApiParameter("agent", str, description="Only this agent's decisions"),
            OpenApiParameter("unit", str, description="Only this unit's decisions"),
            OpenApiParameter(
                "finish_reason",
                str,
                enum=list(ENDINGS),
                description="Only answers that ended so; incomplete: length, content_filter, abandoned or cut",
            ),
            OpenApiParameter("item", str, description="Only decisions about this item, by its item_ref"),
        ]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

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
