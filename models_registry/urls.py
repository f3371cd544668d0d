"""URLs of the registry under /api/v1."""

from django.urls import path

from models_registry import api

urlpatterns = [
    path("models", api.ModelList.as_view(), name="api-models"),
    path("versions", api.VersionList.as_view(), name="api-versions"),
    path("versions/<uuid:pk>", api.VersionDetail.as_view(), name="api-version"),
    path("versions/<uuid:pk>/promote", api.VersionPromote.as_view(), name="api-version-promote"),
    path("experiments", api.ExperimentList.as_view(), name="api-experiments"),
    path("experiments/<uuid:pk>", api.ExperimentDetail.as_view(), name="api-experiment"),
    path("experiments/<uuid:pk>/stop", api.ExperimentStop.as_view(), name="api-experiment-stop"),
]
