"""/api/v1/status-changes: changes of items' status, reported by the app that owns the items."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from decisions.api.batches import IngestView, body_of
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.items import StatusChangeIn, record_status_changes
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import raw_body
from workspaces.http.permissions import acting
from workspaces.models import Scope

CHANGES = BodyDecoder(StatusChangeIn)


class StatusChangeCreate(IngestView):
    """Records changes of items' status. DONE and COLD_STORAGE end an item, as feedback on all its decisions."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="record_status_changes",
        request=body_of(StatusChangeIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        batch = CHANGES.decode(raw_body(request))
        return self.answer(record_status_changes(by=acting(request), items=batch.items), batch)
