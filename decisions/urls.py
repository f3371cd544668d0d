"""The ledger's part of /api/v1."""

from django.urls import path

from decisions import api, export_api, item_api, step_api

urlpatterns = [
    path("decisions", api.DecisionList.as_view(), name="api-decisions"),
    path("feedback", api.FeedbackCreate.as_view(), name="api-feedback"),
    path("agents/<slug:slug>/decide", api.Decide.as_view(), name="api-decide"),
    path("agents", api.AgentList.as_view(), name="api-agents"),
    path("decisions/export", export_api.DecisionExport.as_view(), name="api-decisions-export"),
    path("decisions/<uuid:pk>", api.DecisionDetail.as_view(), name="api-decision"),
    path("decisions/<uuid:pk>/labels", api.DecisionLabels.as_view(), name="api-decision-labels"),
    path("episodes", step_api.EpisodeList.as_view(), name="api-episodes"),
    path("episodes/<uuid:pk>", step_api.EpisodeDetail.as_view(), name="api-episode"),
    path("steps", step_api.StepList.as_view(), name="api-steps"),
    path("status-changes", item_api.StatusChangeCreate.as_view(), name="api-status-changes"),
]
