"""URLs of the registry under /api/v1."""

from django.urls import path

from models_registry.api import experiments as api
from models_registry.api import groups as group_api
from models_registry.api import holdouts as holdout_api
from models_registry.api import serving as serving_api
from models_registry.api import versions as version_api

urlpatterns = [
    path("models", api.ModelList.as_view(), name="api-models"),
    path("models/<uuid:pk>/alias-moves", serving_api.AliasMoveList.as_view(), name="api-alias-moves"),
    path("models/<uuid:pk>/aliases/revert", version_api.AliasRevert.as_view(), name="api-alias-revert"),
    path("backends", serving_api.BackendList.as_view(), name="api-backends"),
    path("backends/<uuid:pk>", serving_api.BackendDetail.as_view(), name="api-backend"),
    path("backends/<uuid:pk>/check", serving_api.BackendCheck.as_view(), name="api-backend-check"),
    path("calls", serving_api.CallList.as_view(), name="api-calls"),
    path("keys/<uuid:pk>/use", serving_api.KeyUseDetail.as_view(), name="api-key-use"),
    path("deployments/<uuid:pk>", serving_api.DeploymentDetail.as_view(), name="api-deployment"),
    path("remote-versions", serving_api.RemoteVersionList.as_view(), name="api-remote-versions"),
    path("versions", api.VersionList.as_view(), name="api-versions"),
    path("versions/<version:pk>", api.VersionDetail.as_view(), name="api-version"),
    path("versions/<version:pk>/promote", api.VersionPromote.as_view(), name="api-version-promote"),
    path("versions/<version:pk>/deployments", serving_api.DeploymentList.as_view(), name="api-deployments"),
    path("versions/<version:pk>/aliases", serving_api.VersionAliases.as_view(), name="api-version-aliases"),
    path(
        "versions/<version:pk>/aliases/remove",
        serving_api.VersionAliasRemove.as_view(),
        name="api-version-alias-remove",
    ),
    path("versions/<version:pk>/approve", version_api.VersionApprove.as_view(), name="api-version-approve"),
    path(
        "versions/<version:pk>/approve/withdraw",
        version_api.VersionApprovalWithdraw.as_view(),
        name="api-version-approval-withdraw",
    ),
    path("versions/<version:pk>/retire", version_api.VersionRetire.as_view(), name="api-version-retire"),
    path("versions/<version:pk>/restore", version_api.VersionRestore.as_view(), name="api-version-restore"),
    path("experiments", api.ExperimentList.as_view(), name="api-experiments"),
    path("experiment-groups", group_api.GroupList.as_view(), name="api-experiment-groups"),
    path("experiment-groups/<uuid:pk>", group_api.GroupDetail.as_view(), name="api-experiment-group"),
    path("experiment-groups/<uuid:pk>/stop", group_api.GroupStop.as_view(), name="api-experiment-group-stop"),
    path("holdouts", holdout_api.HoldoutList.as_view(), name="api-holdouts"),
    path("holdouts/<uuid:pk>", holdout_api.HoldoutDetail.as_view(), name="api-holdout"),
    path("holdouts/<uuid:pk>/end", holdout_api.HoldoutEnd.as_view(), name="api-holdout-end"),
    path("experiments/estimate", api.ExperimentEstimate.as_view(), name="api-experiment-estimate"),
    path("experiments/<uuid:pk>", api.ExperimentDetail.as_view(), name="api-experiment"),
    path("experiments/<uuid:pk>/looks", api.ExperimentLooks.as_view(), name="api-experiment-looks"),
    path("experiments/<uuid:pk>/share", api.ExperimentShare.as_view(), name="api-experiment-share"),
    path("experiments/<uuid:pk>/stop", api.ExperimentStop.as_view(), name="api-experiment-stop"),
]
