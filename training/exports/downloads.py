"""Answers with an exported model: its files as one archive. The page and the API do."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from decisions.queries.agents import find_agent_version
from models_registry.artifacts.archive import stream_archive
from training.exports.hosting import PROFILES, STANDARD
from training.exports.modelfile import MODELFILE, write_beside_gguf, write_modelfile
from training.models import ExportJob
from training.models.export import ExportFormat, ExportState
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import Conflict

TAR = "application/x-tar"
GGUF = (ExportFormat.GGUF, ExportFormat.OLLAMA)


def _texts_for(export: ExportJob) -> Mapping[str, str]:
    """The Modelfile, written when it is taken: by the version of the agent that acts. Of formats that Ollama reads.
    Beside a GGUF the standard hosting profile."""
    asks = find_agent_version(export.version.registered_model)
    if asks is None:
        return {}
    if export.format == ExportFormat.MERGED:
        return {MODELFILE: write_modelfile(asks)}
    if export.format not in GGUF:
        return {}
    return write_beside_gguf(asks, export.options["quantisation"], export.report.get("details", {}), PROFILES[STANDARD])


def answer_download(request: HttpRequest | Request, *, by: Actor, export: ExportJob) -> HttpResponseBase:
    """A tar archive of a ready export with a Modelfile, and its length; the audit says who took it. HEAD takes nothing.
    Raises Conflict."""
    if export.state != ExportState.READY or export.artifact is None:
        raise Conflict("This export is not ready for download.")
    name = f"{export.version.registered_model.name}-{export.version.number}-{export.name}"
    archive = stream_archive(export.artifact.digest, folder=name, texts=_texts_for(export))
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"', "Content-Length": str(archive.size)}
    if request.method == "HEAD":
        return HttpResponse(content_type=TAR, headers=headers)
    record_audit(by=by, action="export.downloaded", target=f"export:{export.id}")
    return StreamingHttpResponse(archive.chunks, content_type=TAR, headers=headers)
