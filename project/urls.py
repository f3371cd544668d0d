"""All URLs: the API, the probes, and the pages."""

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from project import health

api_v1: list[URLPattern | URLResolver] = [
    *(path("", include(f"{room}.urls")) for room in ("decisions.api", "workspaces", "models_registry", "training")),
    path("schema", login_not_required(SpectacularAPIView.as_view()), name="api-schema"),
    path("docs", login_not_required(SpectacularSwaggerSplitView.as_view(url_name="api-schema")), name="api-docs"),
]
workspace_pages = [
    path("", include(urls))
    for urls in (
        "project.page_urls",
        "decisions.pages.urls",
        "training.page_urls",
        "project.registry.urls",
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
    path("", include("project.components_page")),
    path("w/<slug:slug>/", include((workspace_pages, "pages"))),
]

handler400 = "project.views.bad_request"
handler403 = "project.views.forbidden"
handler404 = "project.views.not_found"
handler500 = "project.views.server_error"
