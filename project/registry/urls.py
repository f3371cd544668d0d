"""URLs of the registry's pages, under /w/<workspace>/."""

from django.urls import path

from project.registry import backends, calls, downloads, experiments, version_changes, versions

urlpatterns = [
    path("models/", versions.model_list, name="models"),
    path("models/versions/<uuid:pk>", versions.version_detail, name="version"),
    path("models/versions/<uuid:pk>/exports", versions.version_exports, name="version-exports"),
    path("models/versions/<uuid:pk>/export", versions.version_export, name="version-export"),
    path("models/versions/<uuid:pk>/promote", versions.version_promote, name="version-promote"),
    path("models/versions/<uuid:pk>/aliases", version_changes.alias_point, name="version-alias"),
    path("models/versions/<uuid:pk>/aliases/remove", version_changes.alias_remove, name="version-alias-remove"),
    path("models/versions/<uuid:pk>/aliases/revert", version_changes.alias_revert, name="version-alias-revert"),
    path("models/versions/<uuid:pk>/notes", version_changes.version_note, name="version-note"),
    path("models/versions/<uuid:pk>/approve", version_changes.version_approve, name="version-approve"),
    path("models/versions/<uuid:pk>/unapprove", version_changes.version_unapprove, name="version-unapprove"),
    path("models/versions/<uuid:pk>/retire", version_changes.version_retire, name="version-retire"),
    path("models/versions/<uuid:pk>/restore", version_changes.version_restore, name="version-restore"),
    path("models/versions/<uuid:pk>/try", experiments.version_try, name="version-try"),
    path("models/exports/<uuid:pk>/download", downloads.export_download, name="export-download"),
    path("backends/", backends.backend_list, name="backends"),
    path("backends/new", backends.backend_new, name="backend-new"),
    path("backends/calls", calls.call_list, name="calls"),
    path("backends/calls/<uuid:pk>", calls.call_detail, name="call"),
    path("backends/deployments/<uuid:pk>", backends.deployment_change, name="deployment-change"),
    path("backends/deployments/<uuid:pk>/remove", backends.deployment_remove, name="deployment-remove"),
    path("backends/<uuid:pk>", backends.backend_detail, name="backend"),
    path("backends/<uuid:pk>/edit", backends.backend_edit, name="backend-edit"),
    path("backends/<uuid:pk>/switch", backends.backend_switch, name="backend-switch"),
    path("backends/<uuid:pk>/check", backends.backend_check, name="backend-check"),
    path("backends/<uuid:pk>/remove", backends.backend_remove, name="backend-remove"),
    path("backends/<uuid:pk>/deploy", backends.backend_deploy, name="backend-deploy"),
    path("backends/<uuid:pk>/remote", backends.backend_remote, name="backend-remote"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<uuid:pk>", experiments.experiment_detail, name="experiment"),
    path("experiments/<uuid:pk>/status", experiments.experiment_status, name="experiment-status"),
    path("experiments/<uuid:pk>/evidence", experiments.experiment_evidence, name="experiment-evidence"),
    path("experiments/<uuid:pk>/share", experiments.experiment_share, name="experiment-share"),
    path("experiments/<uuid:pk>/stop", experiments.experiment_stop, name="experiment-stop"),
]
