"""Downloading an exported model: its files as one archive, for admins."""

from __future__ import annotations

import uuid

from django.http import Http404
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from training.exports.downloads import answer_download
from training.models import ExportJob
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page


@require_safe
@workspace_page(role=Role.ADMIN)
def export_download(request: PageRequest, pk: uuid.UUID) -> HttpResponseBase:
    exports = ExportJob.objects.for_workspace(request.workspace)
    export = exports.select_related("version__registered_model", "artifact").filter(pk=pk).first()
    if export is None:
        raise Http404("Export not found.")
    return answer_download(request, by=request.actor, export=export)
