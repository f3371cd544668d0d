"""URLs of the registry's pages, under /w/<workspace>/."""

from django.urls import path

from project.registry import downloads, experiments, versions

urlpatterns = [
    path("models/", versions.model_list, name="models"),
    path("models/versions/<uuid:pk>", versions.version_detail, name="version"),
    path("models/versions/<uuid:pk>/exports", versions.version_exports, name="version-exports"),
    path("models/versions/<uuid:pk>/export", versions.version_export, name="version-export"),
    path("models/versions/<uuid:pk>/promote", versions.version_promote, name="version-promote"),
    path("models/versions/<uuid:pk>/try", experiments.version_try, name="version-try"),
    path("models/exports/<uuid:pk>/download", downloads.export_download, name="export-download"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<uuid:pk>", experiments.experiment_detail, name="experiment"),
    path("experiments/<uuid:pk>/status", experiments.experiment_status, name="experiment-status"),
    path("experiments/<uuid:pk>/evidence", experiments.experiment_evidence, name="experiment-evidence"),
    path("experiments/<uuid:pk>/share", experiments.experiment_share, name="experiment-share"),
    path("experiments/<uuid:pk>/stop", experiments.experiment_stop, name="experiment-stop"),
]
