"""Answers with an exported model: its files as one archive. The page and the API do."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from models_registry.archive import stream_archive
from training.models import ExportJob
from training.models.export import ExportState
from workspaces.actors import Actor
from workspaces.errors import Conflict
from workspaces.services import record_audit

TAR = "application/x-tar"


def answer_download(request: HttpRequest | Request, *, by: Actor, export: ExportJob) -> HttpResponseBase:
    """A tar archive of a ready export, with its length; the audit says who took it. HEAD takes nothing. Raises
    Conflict."""
    if export.state != ExportState.READY or export.artifact is None:
        raise Conflict("This export is not ready for download.")
    name = f"{export.version.registered_model.name}-{export.version.number}-{export.format}"
    archive = stream_archive(export.artifact.digest, folder=name)
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"', "Content-Length": str(archive.size)}
    if request.method == "HEAD":
        return HttpResponse(content_type=TAR, headers=headers)
    record_audit(by=by, action="export.downloaded", target=f"export:{export.id}")
    return StreamingHttpResponse(archive.chunks, content_type=TAR, headers=headers)
