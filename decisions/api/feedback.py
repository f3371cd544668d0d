"""/api/v1/feedback: what was observed after decisions, recorded and listed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from decisions.api.batches import IngestListView, body_of
from decisions.api.list_queries import FeedbackQuery
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.api.serializers.feedback import ListedFeedbackSerializer
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.models import Feedback
from decisions.queries.feedback_list import find_feedback
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import raw_body
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope

FEEDBACK = BodyDecoder(FeedbackIn)


class FeedbackList(IngestListView[Feedback]):
    """Lists feedback, newest first: what apps sent, what labels said, and what was measured."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}
    serializer_class = ListedFeedbackSerializer
    query_class = FeedbackQuery

    def get_queryset(self) -> Any:
        return find_feedback(acting(self.request).workspace, list_query(self))

    @extend_schema(
        operation_id="record_feedback",
        request=body_of(FeedbackIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        """Records feedback on decisions, episodes or units: early, late, repeated or superseding."""
        batch = FEEDBACK.decode(raw_body(request))
        return self.answer(record_feedback(by=acting(request), items=batch.items), batch)
