"""/api/v1: the lineage of datasets, runs and versions, in both directions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from models_registry.versions.references import find_version
from training.lineage.versions import DATASET, RUN, VERSION, Lineage, read_lineage
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class LineageNodeSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="dataset, run, version, experiment or export")
    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.CharField(help_text="For a dataset, its kind of rows")
    at = serializers.DateTimeField(help_text="When it was made")
    distance = serializers.IntegerField(help_text="Number of links from the start; below 0 for what it came from")


class LineageLinkSerializer(serializers.Serializer[Any]):
    from_id = serializers.UUIDField(help_text="What came first")
    to_id = serializers.UUIDField(help_text="What was made from it")
    role = serializers.CharField(
        help_text="train, heldout or replay (a dataset of a run), base or reward_model (a version of a run), produced, "
        "weights (under an adapter), parent, an arm of an experiment, or the format of an export"
    )


class LineageSerializer(serializers.Serializer[Any]):
    """`nodes` begin with the furthest that it was made from, and end with the furthest that was made from it."""

    nodes = LineageNodeSerializer(many=True)
    links = LineageLinkSerializer(many=True)


def _answer(found: Lineage) -> Response:
    nodes = [*found.above, found.start, *found.below]
    links = [{"from_id": one.source[1], "to_id": one.target[1], "role": one.role} for one in found.links]
    return Response(LineageSerializer({"nodes": nodes, "links": links}).data)


RESPONSES: dict[str, Any] = {"200": LineageSerializer, "404": ErrorSerializer}


class VersionLineage(APIView):
    """Reads what a version was made from, and what was made from it."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="read_version_lineage", responses=RESPONSES)
    def get(self, request: Request, pk: str) -> Response:
        workspace = acting(request).workspace
        return _answer(read_lineage(workspace, VERSION, find_version(workspace, pk).id))


class RunLineage(APIView):
    """Reads what a run was made from, and what was made from it."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="read_run_lineage", responses=RESPONSES)
    def get(self, request: Request, pk: UUID) -> Response:
        return _answer(read_lineage(acting(request).workspace, RUN, pk))


class DatasetLineage(APIView):
    """Reads what was made from a dataset."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="read_dataset_lineage", responses=RESPONSES)
    def get(self, request: Request, pk: UUID) -> Response:
        return _answer(read_lineage(acting(request).workspace, DATASET, pk))
