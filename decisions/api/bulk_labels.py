"""/api/v1/bulk-labels: one verdict for all decisions that match, its progress, and taking it back."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.api.serializers.bulk_labels import (
    BulkLabelCreateSerializer,
    BulkLabelGivenSerializer,
    BulkLabelSerializer,
    CountSerializer,
)
from decisions.ingest.decoding import ItemError
from decisions.labelling.bulk import cancel_bulk, check_verdict, label_in_bulk, undo_bulk
from decisions.labelling.matching import Asked, Matching, Selection, find_matching, find_missing, read_filters
from decisions.models import BulkLabel
from workspaces.access.actors import Actor
from workspaces.errors import NotFound
from workspaces.http.permissions import acting
from workspaces.models import Scope


class BulkLabelQuery(generics.GenericAPIView[Any]):
    serializer_class = BulkLabelSerializer

    def get_queryset(self) -> Any:
        found = BulkLabel.objects.for_workspace(acting(self.request).workspace)
        return found.select_related("reviewer", "job").defer("decisions")


class BulkLabelList(BulkLabelQuery, generics.ListAPIView[BulkLabel]):
    """Lists labels that were given in bulk, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="label_in_bulk",
        request=BulkLabelCreateSerializer,
        responses={"200": CountSerializer, "202": BulkLabelGivenSerializer},
    )
    def post(self, request: Request) -> Response:
        """Gives one verdict to all decisions that match. With `dry_run` it only counts them, as a 200; send its
        `asked` to label them. Decisions with a person's label keep it, unless `replaces`. Where more match than were
        counted, nothing is labelled. IDs that name no decision here are `errors`, and the others are labelled. A job
        labels more than 500."""
        body = BulkLabelCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given, by = body.validated_data, acting(request)
        filters, ids = read_filters(given.get("filters", {})), tuple(given.get("decisions", ()))
        said = {"verdict": given["verdict"], "corrected_action": given.get("corrected_action")}
        if given["dry_run"]:
            check_verdict(**said)
            selection = Selection(filters, ids, given.get("before"))
            found = find_matching(by.workspace, selection, right=said["corrected_action"])
            return Response(_count(found, replaces=given["replaces"]) | _errors_of(by, ids))
        asked = dict(given["asked"])
        selection = Selection(filters, ids, asked.pop("before", None))
        bulk = label_in_bulk(by=by, selection=selection, asked=Asked(**asked), replaces=given["replaces"], **said)
        return Response(BulkLabelSerializer(bulk).data | _errors_of(by, ids), status=202)


def _errors_of(by: Actor, ids: Sequence[uuid.UUID]) -> dict[str, Any]:
    """Names the ids for which there is no decision, as the `errors` of an answer."""
    missing = find_missing(by.workspace, ids) if ids else ()
    return {
        "errors": [{"index": index, **ItemError(index, NotFound.code, (fault,)).as_plain()} for index, fault in missing]
    }


def _count(found: Matching, *, replaces: bool) -> dict[str, Any]:
    shown = {
        "asked": None if found.too_many else asdict(found.asked) | {"before": found.selection.before},
        "to_label": 0 if found.too_many else len(found.choose(replaces=replaces)),
        "unfit": len(found.unfit),
        "too_many": found.too_many,
        "older": found.older,
        "errors": (),
    }
    return dict(CountSerializer(shown).data)


class BulkLabelDetail(BulkLabelQuery, generics.RetrieveAPIView[BulkLabel]):
    """Reads how far labelling in bulk is, or what came of it."""

    scopes = {"GET": Scope.EXPORT_READ}


class BulkLabelCancel(BulkLabelQuery):
    """Asks the job of a bulk to stop. What is labelled stays, until it is undone."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(operation_id="cancel_bulk_label", request=None, responses={"200": BulkLabelSerializer})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        bulk = generics.get_object_or_404(self.get_queryset(), pk=pk)
        return Response(BulkLabelSerializer(cancel_bulk(by=acting(request), bulk=bulk)).data)


class BulkLabelUndo(BulkLabelQuery):
    """Takes all labels of a bulk back. For the person or key that gave them, and for admins."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(operation_id="undo_bulk_label", request=None, responses={"200": BulkLabelSerializer})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        """Takes all labels of a bulk back; what was said of each decision before counts again. For the person or key
        that gave them, and for admins. A job takes back more than 500."""
        bulk = generics.get_object_or_404(self.get_queryset(), pk=pk)
        return Response(BulkLabelSerializer(undo_bulk(by=acting(request), bulk=bulk)).data)
