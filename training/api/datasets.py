"""/api/v1: datasets (create, read rows)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.current import get_current_agent
from decisions.api.agent_lists import AgentListQuery, of_agent
from decisions.api.export import NDJSON
from jobs.models import Job
from training.datasets import freezing
from training.datasets.downloads import send_rows
from training.datasets.other_formats import FILES, FORMATS, LINES
from training.datasets.serializers import DatasetCreateSerializer, DatasetSerializer, FreezingSerializer
from training.environments import drawing as task_datasets
from training.loops.first_model import services as first_models
from training.models import DatasetSnapshot
from training.rows.selection import Filters
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import text_parameter
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query, refuse_unknown_names
from workspaces.http.rendering import OneFormat
from workspaces.models import Scope

FILTER_FIELDS = ("since", "until", "policy", "unit", "min_reward", "with_propensity", "unjudged", "incomplete")


class DatasetList(generics.ListAPIView[DatasetSnapshot]):
    """Lists datasets, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = DatasetSerializer
    query_class = AgentListQuery

    def get_queryset(self) -> Any:
        workspace = acting(self.request).workspace
        datasets = DatasetSnapshot.objects.for_workspace(workspace)
        return of_agent(workspace, datasets, list_query(self)).select_related("agent", "artifact")

    @extend_schema(
        operation_id="create_dataset",
        request=DatasetCreateSerializer,
        responses={"202": FreezingSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Queues a job that freezes an agent's rewarded decisions as a dataset, or people's labels of them: labelled
        rows, whose right answer is the confirmed action or the correction, or preference pairs of the correction and
        the agent's action. A dataset of texts holds rewarded texts, tool calls and structured actions that no schema
        enumerates. Suggestions of the auto-labeler make rows where they are asked for, of decisions without a
        verdict, and are counted apart."""
        given = DatasetCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        current = get_current_agent(acting(request), fields["agent"])
        job = freezing.start_freezing(
            by=acting(request),
            agent=current.agent,
            name=fields["name"],
            kind=fields["kind"],
            unused_at=timezone.now() if fields["only_new"] else None,
            least_confidence=fields["least_confidence"] if fields["suggestions"] else None,
            filters=Filters(**{name: fields[name] for name in FILTER_FIELDS}),
            held_out=fields["held_out"],
            negatives=fields["synthetic_negatives"],
            **({"reward_spec": fields["reward_spec"]} if fields["reward_spec"] is not None else {}),
        )
        return Response(FreezingSerializer(job).data, status=202)


class DatasetRows(APIView):
    """Streams a dataset's rows as JSON lines, or as one JSON list: as they were frozen, or in a format that TRL's
    trainers take. A format that the rows do not hold enough for is refused."""

    scopes = {"GET": Scope.EXPORT_READ}
    content_negotiation_class = OneFormat

    @extend_schema(
        operation_id="export_dataset",
        parameters=[
            OpenApiParameter("format", str, enum=list(FORMATS), default="rows", description="The rows' shape"),
            OpenApiParameter("file", str, enum=list(FILES), default=LINES, description="JSON lines, or one JSON list"),
        ],
        responses={(200, NDJSON): OpenApiTypes.STR, "409": ErrorSerializer},
    )
    def get(self, request: Request, pk: UUID) -> StreamingHttpResponse:
        datasets = DatasetSnapshot.objects.for_workspace(acting(request).workspace).select_related("artifact")
        dataset = generics.get_object_or_404(datasets, pk=pk)
        refuse_unknown_names(request, ["format", "file"])
        format = text_parameter(request, "format") or "rows"
        file = text_parameter(request, "file") or LINES
        return send_rows(dataset, format, file)


class DatasetFreezing(generics.RetrieveAPIView[Job]):
    """Reads the progress of freezing a dataset, and at the end the dataset's id."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = FreezingSerializer

    def get_queryset(self) -> Any:
        return Job.objects.for_workspace(acting(self.request).workspace).filter(
            kind__in=(freezing.KIND, task_datasets.KIND, first_models.KIND)
        )
