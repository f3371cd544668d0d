"""The ledger's part of /api/v1."""

from django.urls import path

from decisions.api import agents, decisions, episodes, export, items, rewards, suggestions

urlpatterns = [
    path("decisions", decisions.DecisionList.as_view(), name="api-decisions"),
    path("feedback", decisions.FeedbackCreate.as_view(), name="api-feedback"),
    path("agents/<slug:slug>/decide", agents.Decide.as_view(), name="api-decide"),
    path("agents/<slug:slug>", agents.AgentDetail.as_view(), name="api-agent"),
    path("agents", agents.AgentList.as_view(), name="api-agents"),
    path("decisions/export", export.DecisionExport.as_view(), name="api-decisions-export"),
    path("decisions/<uuid:pk>", decisions.DecisionDetail.as_view(), name="api-decision"),
    path("decisions/<uuid:pk>/labels", decisions.DecisionLabels.as_view(), name="api-decision-labels"),
    path("episodes", episodes.EpisodeList.as_view(), name="api-episodes"),
    path("episodes/<uuid:pk>", episodes.EpisodeDetail.as_view(), name="api-episode"),
    path("steps", episodes.StepList.as_view(), name="api-steps"),
    path("agents/<slug:slug>/auto-labeler", suggestions.AutoLabelerDetail.as_view(), name="api-auto-labeler"),
    path("agents/<slug:slug>/suggestions", suggestions.SuggestionList.as_view(), name="api-suggestions"),
    path("rewards/calculations", rewards.CalculationList.as_view(), name="api-reward-calculations"),
    path("status-changes", items.StatusChangeCreate.as_view(), name="api-status-changes"),
]
