"""The API's OpenAPI documents, as JSON unless YAML is asked for: of /api/v1, of the notes app's paths, of the gateway.

Each has a page to try it at. `SchemaGenerator` itself still makes one document of everything that Django serves, for
tests and `tools.reference`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.settings import spectacular_settings
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from project.gateway.document import build_document

LINKS = (
    "Other documents: the [gateway](/api/v1/docs/gateway), which speaks OpenAI's protocol, and the "
    "[notes app's paths](/api/v1/docs/notes-app)."
)
OWN, NOTES_APP = ("/api/v1/", "/v1/"), "/api/"


class OwnGenerator(SchemaGenerator):
    """Everything but the notes app's paths."""

    about: ClassVar[dict[str, str]] = {"description": f"{spectacular_settings.DESCRIPTION} {LINKS}"}

    def is_shown(self, path: str) -> bool:
        return path.startswith(OWN)

    def _get_paths_and_endpoints(self) -> Any:
        return [endpoint for endpoint in super()._get_paths_and_endpoints() if self.is_shown(endpoint[0])]

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        document = super().get_schema(request=request, public=public)
        document["info"] |= self.about
        return document


class NotesAppGenerator(OwnGenerator):
    """The notes app's paths, whose forms its contract fixes."""

    about: ClassVar[dict[str, str]] = {
        "title": "Reckoner for the notes app",
        "description": "The paths of the notes app, in its own words. The same decisions are at "
        "[/api/v1](/api/v1/docs).",
    }

    def is_shown(self, path: str) -> bool:
        return path.startswith(NOTES_APP) and not path.startswith(OWN)


class ApiDocument(SpectacularAPIView):
    """The document of /api/v1."""

    generator_class = OwnGenerator
    # The first is the answer to whoever names none, as browsers do.
    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer, OpenApiYamlRenderer2]


class NotesAppDocument(ApiDocument):
    """The document of the notes app's paths."""

    generator_class = NotesAppGenerator


class GatewayDocument(ApiDocument):
    """The document of the gateway, which serves it, too."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(build_document())
