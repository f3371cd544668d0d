"""/api/v1: exports of versions: start, watch, cancel, download."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from models_registry.versions.references import find_version
from training.engine.spec.export_formats import QUANTISATIONS
from training.exports.downloads import TAR, answer_download
from training.exports.hosting import HELP, PROFILES, STANDARD
from training.exports.services import cancel_export, start_export
from training.models import ExportFormat, ExportJob
from workspaces.http.bodies import StrictBody, any_of
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.rendering import OneFormat
from workspaces.models import Scope


class ExportSerializer(serializers.ModelSerializer[ExportJob]):
    version = serializers.CharField(source="version.__str__")
    digest = serializers.SerializerMethodField()
    options = serializers.DictField(
        read_only=True,
        help_text="For onnx {cache}, for gguf {quantisation}, for ollama {quantisation, profile, host}; else empty",
    )
    report = serializers.DictField(
        read_only=True,
        help_text="Sizes, times and parity, once it is ready or refused (docs/export.md); empty before that. "
        "{same_files: true} if a version's own files are the export",
    )
    progress = serializers.FloatField(source="job.progress", default=0.0, help_text="In [0, 1]")

    class Meta:
        model = ExportJob
        fields = [
            "id",
            "version",
            "format",
            "options",
            "state",
            "progress",
            "digest",
            "report",
            "error",
            "created_at",
            "finished_at",
        ]

    def get_digest(self, export: ExportJob) -> str | None:
        return export.artifact.digest if export.artifact else None


class ExportStartSerializer(StrictBody):
    together = {
        "anyOf": [
            {"not": {"required": ["profile"]}},
            {"properties": {"format": any_of(ExportFormat.OLLAMA.value)}, "required": ["format"]},
        ]
    }
    format = serializers.ChoiceField(choices=ExportFormat.choices, default=ExportFormat.MERGED)
    cache = serializers.BooleanField(
        default=False, help_text="For onnx: the graph takes keys and values of earlier tokens"
    )
    quantisation = serializers.ChoiceField(
        choices=QUANTISATIONS, required=False, allow_null=True, help_text="For gguf and ollama; default: Q4_K_M"
    )
    profile = serializers.ChoiceField(
        choices=list(PROFILES), required=False, help_text=f"For ollama; default: {STANDARD}. {HELP}"
    )


class VersionExport(APIView):
    """Exports a version: merged weights, or another format with its options, a classifier as onnx or sklearn; ollama
    makes a model of its GGUF at the instance's Ollama server (OLLAMA_HOST). The files are compared with the version
    before they are ready; those that differ too much are refused. A second call finds the first export that is ready or
    under way. Everything that is missing for it (packages, a shape that the format takes, room on the disk) is said at
    once, and nothing is begun."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="export_version",
        request=ExportStartSerializer,
        responses={"201": ExportSerializer, "400": ErrorSerializer, "409": ErrorSerializer, "507": ErrorSerializer},
    )
    def post(self, request: Request, pk: str) -> Response:
        body = ExportStartSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        version = find_version(acting(request).workspace, pk)
        export = start_export(by=acting(request), version=version, **body.validated_data)
        return Response(ExportSerializer(export).data, status=201)


class VersionExports(generics.ListAPIView[ExportJob]):
    """Lists a version's exports, refused and failed ones too, the newest first."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ExportSerializer

    def get_queryset(self) -> Any:
        version = find_version(acting(self.request).workspace, self.kwargs["pk"])
        return ExportJob.objects.filter(version=version).select_related("version__registered_model", "artifact", "job")


class ExportQuery(generics.GenericAPIView[ExportJob]):
    def get_queryset(self) -> Any:
        return ExportJob.objects.for_workspace(acting(self.request).workspace).select_related(
            "version__registered_model", "artifact", "job"
        )


class ExportDetail(ExportQuery, generics.RetrieveAPIView[ExportJob]):
    """Reads one export; `digest` names its artifact once it is ready, `report` says what the comparison found."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ExportSerializer


class ExportCancel(ExportQuery):
    """Cancels an export that is queued or being made. Nothing of it stays."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="cancel_export", request=None, responses={"200": ExportSerializer, "409": ErrorSerializer}
    )
    def post(self, request: Request, pk: UUID) -> Response:
        export = generics.get_object_or_404(self.get_queryset(), pk=pk)
        cancel_export(by=acting(request), export=export)
        return Response(ExportSerializer(self.get_queryset().get(pk=pk)).data)


class ExportDownload(ExportQuery):
    """Downloads the files of a ready export as one tar archive. The audit says who did."""

    scopes = {"GET": Scope.ADMIN}
    content_negotiation_class = OneFormat

    @extend_schema(operation_id="download_export", responses={(200, TAR): OpenApiTypes.BINARY, "409": ErrorSerializer})
    def get(self, request: Request, pk: UUID) -> HttpResponseBase:
        export = generics.get_object_or_404(self.get_queryset(), pk=pk)
        return answer_download(request, by=acting(request), export=export)
