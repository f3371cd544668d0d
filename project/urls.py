"""All URLs: the API, the probes, and the pages."""

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from project import health
from project.documents import ApiDocument, GatewayDocument, NotesAppDocument

DOCUMENTS = (
    ("", "", ApiDocument),
    ("/gateway", "-gateway", GatewayDocument),
    ("/notes-app", "-notes-app", NotesAppDocument),
)

api_v1: list[URLPattern | URLResolver] = [
    *(
        path("", include(f"{room}.urls"))
        for room in ("decisions.api", "workspaces.api", "models_registry.api", "training.api")
    ),
    *(
        path(at, login_not_required(view), name=name)
        for suffix, ending, document in DOCUMENTS
        for at, view, name in (
            (f"schema{suffix}", document.as_view(), f"api-schema{ending}"),
            (
                f"docs{suffix}",
                SpectacularSwaggerSplitView.as_view(url_name=f"api-schema{ending}"),
                f"api-docs{ending}",
            ),
        )
    ),
]
workspace_pages = [
    path("", include(urls))
    for urls in (
        "project.pages.urls",
        "decisions.pages.urls",
        "training.pages.urls",
        "project.pages.registry.urls",
        "workspaces.people.page_urls",
        "workspaces.audit.page_urls",
    )
]

# Tried in this order: what an app asks for all day first.
urlpatterns = [
    path("api/v1/", include(api_v1)),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("", include("decisions.api.trace_urls")),
    path("api/", include("decisions.notes_app.urls")),
    path("", include("workspaces.page_urls")),
    path("", include("project.pages.components")),
    path("w/<slug:slug>/", include((workspace_pages, "pages"))),
]

handler400 = "project.pages.views.bad_request"
handler403 = "project.pages.views.forbidden"
handler404 = "project.pages.views.not_found"
handler500 = "project.pages.views.server_error"
