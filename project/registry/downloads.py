"""Downloading an exported model: its files as one archive, for admins."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from models_registry.archive import stream_archive
from training.models import ExportJob
from training.models.export import ExportState
from workspaces.errors import NotFound
from workspaces.models import Role
from workspaces.pages import PageRequest, workspace_page
from workspaces.services import record_audit


@require_safe
@workspace_page(role=Role.ADMIN)
def export_download(request: PageRequest, pk: uuid.UUID) -> HttpResponseBase:
    """A tar archive of a ready export, with its length; the audit says who took it."""
    export = (
        ExportJob.objects.for_workspace(request.workspace)
        .select_related("version__registered_model", "artifact")
        .filter(pk=pk)
        .first()
    )
    if export is None:
        raise Http404("Export not found.")
    if export.state != ExportState.READY or export.artifact is None:
        raise NotFound("This export is not ready for download yet.")
    name = f"{export.version.registered_model.name}-{export.version.number}-{export.format}"
    archive = stream_archive(export.artifact.digest, folder=name)
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"', "Content-Length": str(archive.size)}
    if request.method == "HEAD":
        return HttpResponse(content_type="application/x-tar", headers=headers)
    record_audit(by=request.actor, action="export.downloaded", target=f"export:{export.id}")
    return StreamingHttpResponse(archive.chunks, content_type="application/x-tar", headers=headers)
