"""/api/v1/imports: imports a file of decisions or rows for training by a job."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import SimpleUploadedFile
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.models import Job
from training.imports import uploads
from training.imports.checking import check_file
from training.imports.serializers import ImportBodySerializer, ImportSerializer, ImportUploadSerializer
from training.imports.services import KIND, cancel_import, keep_for_import, start_import
from workspaces.errors import TooLarge
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import StrictJSONParser
from workspaces.http.permissions import acting
from workspaces.models import Scope


class ImportCreate(APIView):
    """Imports a file: rows for training as a dataset, or decisions into the ledger. The file is checked before the
    answer, and nothing of one that is refused is kept; a job writes it."""

    scopes = {"POST": Scope.ADMIN}
    parser_classes = [StrictJSONParser, MultiPartParser]

    @extend_schema(
        operation_id="start_import",
        request={"application/json": ImportBodySerializer, "multipart/form-data": ImportUploadSerializer},
        responses={"202": ImportSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        by = acting(request)
        sent = request.FILES if request.content_type.startswith("multipart/") else None
        given: Any = (ImportBodySerializer if sent is None else ImportUploadSerializer)(data=request.data)
        given.is_valid(raise_exception=True)
        file = given.validated_data["file"]
        if sent is None:
            file = SimpleUploadedFile(file, given.validated_data["content"].encode())
        if fault := uploads.size_fault(file):
            raise TooLarge(fault)
        with tempfile.TemporaryDirectory(prefix="reckoner-upload-") as folder:
            path = uploads.write_upload(file, Path(folder))
            check_file(by=by, plan=given.plan, path=path)
            upload = keep_for_import(by=by, plan=given.plan, path=path)
        job = start_import(by=by, upload=upload, plan=given.plan, file=path.name)
        return Response(ImportSerializer(job).data, status=202)


class ImportQuery(generics.GenericAPIView[Any]):
    def get_queryset(self) -> Any:
        return Job.objects.for_workspace(acting(self.request).workspace).filter(kind=KIND)


class ImportDetail(ImportQuery, generics.RetrieveAPIView[Job]):
    """Reads the progress of an import, and at its end what it wrote and left out."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ImportSerializer


class ImportCancel(ImportQuery):
    """Ask an import to stop. What it has written stays; the same file imported again goes on from there."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="cancel_import", request=None, responses={"200": ImportSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        job = cancel_import(by=acting(request), job=generics.get_object_or_404(self.get_queryset(), pk=pk))
        return Response(ImportSerializer(job).data)
