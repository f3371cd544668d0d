"""The notes app's own paths, under /api."""

from django.urls import path

from decisions import api_compat as compat

urlpatterns = [
    path("training/decisions", compat.Decisions.as_view(), name="api-notes-decisions"),
    path("training/decisions/record", compat.Record.as_view(), name="api-notes-record"),
    path("training/calculate-pending", compat.CalculatePending.as_view(), name="api-notes-calculate-pending"),
    path("training/outcomes", compat.Outcomes.as_view(), name="api-notes-outcomes"),
    path("training/track-outcomes", compat.TrackOutcomes.as_view(), name="api-notes-track-outcomes"),
    path("training/export", compat.Export.as_view(), name="api-notes-export"),
    path("training/export-file", compat.ExportFile.as_view(), name="api-notes-export-file"),
    path("training/stats", compat.Stats.as_view(), name="api-notes-stats"),
    path("decisions/<str:id>/feedback", compat.DecisionFeedback.as_view(), name="api-notes-decision-feedback"),
    path(
        "status-changes/<str:id>/feedback",
        compat.StatusChangeFeedback.as_view(),
        name="api-notes-status-change-feedback",
    ),
]
