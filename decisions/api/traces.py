"""POST /v1/traces, for OpenTelemetry exporters (OTLP over HTTP)."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from decisions.traces import otlp
from decisions.traces.recording import record_spans, summary
from workspaces.access.clocks import note_clock
from workspaces.errors import TooLarge
from workspaces.http.parsing import MAX_BATCH
from workspaces.http.permissions import acting
from workspaces.models import Scope


class ProtobufBody(BaseParser):
    """Bytes, inflated."""

    media_type = otlp.PROTOBUF

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        request: Request = parser_context["request"]
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in otlp.ENCODINGS:
            raise UnsupportedMediaType(encoding, f"Unsupported Content-Encoding {encoding!r}: gzip, deflate or none.")
        body = stream.read(MAX_BATCH + 1)
        if len(body) > MAX_BATCH:
            raise TooLarge(f"The body has more than {MAX_BATCH} bytes.")
        parser_context.clear()  # as in workspaces.http.parsing: the request refers to itself by it
        return otlp.inflate(body, encoding)


class JSONBody(ProtobufBody):
    media_type = otlp.JSON


class AsWritten(BaseRenderer):
    """A refusal in the way of the specification."""

    media_type = otlp.JSON
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return otlp.refusal(self.media_type, data)


class AsProtobuf(AsWritten):
    media_type = otlp.PROTOBUF
    format = "protobuf"


class ByContentType(BaseContentNegotiation):
    """The answer is written as the request was, whatever it accepts: so the specification has it."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        sent = _sent(request)
        return next((parser for parser in parsers if parser.media_type == sent), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        sent = _sent(request)
        chosen = next((renderer for renderer in renderers if renderer.media_type == sent), renderers[-1])
        return chosen, chosen.media_type


def _sent(request: Request) -> str:
    return str(request.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


class Traces(APIView):
    """Spans of OpenTelemetry become episodes, steps, decisions and feedback. An `ExportTraceServiceRequest` of OTLP,
    in protobuf or JSON, gzipped or not. Spans that tell of no agent are left out; what cannot be kept is counted in
    the answer's partial success."""

    scopes = {"POST": Scope.DECISIONS_WRITE}
    parser_classes = [ProtobufBody, JSONBody]
    renderer_classes = [AsProtobuf, AsWritten]
    content_negotiation_class = ByContentType

    @extend_schema(
        operation_id="export_traces",
        request={otlp.JSON: OpenApiTypes.OBJECT, otlp.PROTOBUF: OpenApiTypes.BINARY},
        responses={(200, otlp.JSON): OpenApiTypes.OBJECT, (200, otlp.PROTOBUF): OpenApiTypes.BINARY},
    )
    def post(self, request: Request) -> HttpResponse:
        body = request.data if isinstance(request.data, bytes) else b""  # an empty body asks no parser
        sent = _sent(request)
        if sent not in (otlp.PROTOBUF, otlp.JSON):
            raise UnsupportedMediaType(sent)
        found = otlp.read_request(body, sent)
        by = acting(request)
        note_clock(by.key, moments=(span.ended_at for span in found.spans), date=request.headers.get("Date"))
        recorded = record_spans(by=by, spans=found.spans)
        rejected, message = summary(recorded, found.refused)
        # Not DRF's Response: an empty answer, which is what protobuf makes of success, would lose its Content-Type.
        return HttpResponse(otlp.answer(sent, rejected=rejected, message=message), content_type=sent)
