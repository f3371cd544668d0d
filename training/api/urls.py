"""URLs of the training floor under /api/v1."""

from django.urls import path

from training.api import best, datasets, runs
from training.environments import api as environments
from training.environments.solving import api as solving
from training.evaluation.suites import api as suites
from training.exports import api as export_api
from training.imports import api as imports
from training.lineage import api as lineage_api
from training.lineage import erasure_api
from training.shadows import api as shadows

urlpatterns = [
    path("agents/<slug:slug>/solve", solving.Solve.as_view(), name="api-solve"),
    path("agents/<slug:slug>/solve/batch", solving.SolveBatch.as_view(), name="api-solve-batch"),
    path("agents/<slug:slug>/action-quality", solving.ActionQuality.as_view(), name="api-action-quality"),
    path("datasets", datasets.DatasetList.as_view(), name="api-datasets"),
    path("datasets/freezings/<uuid:pk>", datasets.DatasetFreezing.as_view(), name="api-dataset-freezing"),
    path("datasets/<uuid:pk>/rows", datasets.DatasetRows.as_view(), name="api-dataset-rows"),
    path("datasets/<uuid:pk>/rebuild", erasure_api.DatasetRebuild.as_view(), name="api-dataset-rebuild"),
    path("environments", environments.EnvironmentList.as_view(), name="api-environments"),
    path(
        "environments/<str:name>/datasets",
        environments.EnvironmentDatasets.as_view(),
        name="api-environment-datasets",
    ),
    path("erasures", erasure_api.ErasureList.as_view(), name="api-erasures"),
    path("erasures/<uuid:pk>", erasure_api.ErasureDetail.as_view(), name="api-erasure"),
    path("imports", imports.ImportCreate.as_view(), name="api-imports"),
    path("imports/<uuid:pk>", imports.ImportDetail.as_view(), name="api-import"),
    path("imports/<uuid:pk>/cancel", imports.ImportCancel.as_view(), name="api-import-cancel"),
    path("runs", runs.RunList.as_view(), name="api-runs"),
    path("runs/sweeps", runs.SweepStart.as_view(), name="api-run-sweeps"),
    path("runs/train", runs.TrainNew.as_view(), name="api-train-new"),
    path("runs/best", best.BestStart.as_view(), name="api-run-best"),
    path("runs/best/<uuid:pk>", best.BestDetail.as_view(), name="api-run-best-detail"),
    path("runs/<uuid:pk>", runs.RunDetail.as_view(), name="api-run"),
    path("runs/<uuid:pk>/events", runs.RunEvents.as_view(), name="api-run-events"),
    path("runs/<uuid:pk>/curves", runs.RunCurves.as_view(), name="api-run-curves"),
    path("runs/<uuid:pk>/samples", runs.RunSamples.as_view(), name="api-run-samples"),
    path("runs/<uuid:pk>/cancel", runs.RunCancel.as_view(), name="api-run-cancel"),
    path("shadows", shadows.ShadowList.as_view(), name="api-shadows"),
    path("shadows/<uuid:pk>", shadows.ShadowDetail.as_view(), name="api-shadow"),
    path("shadows/<uuid:pk>/stop", shadows.ShadowStop.as_view(), name="api-shadow-stop"),
    path("suites", suites.SuiteList.as_view(), name="api-suites"),
    path("suites/scorings/<uuid:pk>", suites.SuiteScoring.as_view(), name="api-suite-scoring"),
    path("suites/<uuid:pk>", suites.SuiteDetail.as_view(), name="api-suite"),
    path("suites/<uuid:pk>/scores", suites.SuiteScores.as_view(), name="api-suite-scores"),
    path("datasets/<uuid:pk>/lineage", lineage_api.DatasetLineage.as_view(), name="api-dataset-lineage"),
    path("runs/<uuid:pk>/lineage", lineage_api.RunLineage.as_view(), name="api-run-lineage"),
    path("versions/<version:pk>/lineage", lineage_api.VersionLineage.as_view(), name="api-version-lineage"),
    path("versions/<version:pk>/scores", suites.VersionScores.as_view(), name="api-version-scores"),
    path("versions/<version:pk>/export", export_api.VersionExport.as_view(), name="api-version-export"),
    path("versions/<version:pk>/exports", export_api.VersionExports.as_view(), name="api-version-exports"),
    path("exports/<uuid:pk>", export_api.ExportDetail.as_view(), name="api-export"),
    path("exports/<uuid:pk>/cancel", export_api.ExportCancel.as_view(), name="api-export-cancel"),
    path("exports/<uuid:pk>/download", export_api.ExportDownload.as_view(), name="api-export-download"),
]
