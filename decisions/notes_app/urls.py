"""URLs of the notes app's paths, under /api."""

from django.urls import path

from decisions.notes_app import ai
from decisions.notes_app import api as notes

urlpatterns = [
    path("ai/file", ai.File.as_view(), name="api-notes-file"),
    path("ai/prioritize", ai.Prioritize.as_view(), name="api-notes-prioritize"),
    path("ai/store", ai.Store.as_view(), name="api-notes-store"),
    path("ai/retrieve", ai.Retrieve.as_view(), name="api-notes-retrieve"),
    path("ai/relate", ai.Relate.as_view(), name="api-notes-relate"),
    path("training/decisions", notes.Decisions.as_view(), name="api-notes-decisions"),
    path("training/decisions/record", notes.Record.as_view(), name="api-notes-record"),
    path("training/calculate-pending", notes.CalculatePending.as_view(), name="api-notes-calculate-pending"),
    path("training/outcomes", notes.Outcomes.as_view(), name="api-notes-outcomes"),
    path("training/track-outcomes", notes.TrackOutcomes.as_view(), name="api-notes-track-outcomes"),
    path("training/export", notes.Export.as_view(), name="api-notes-export"),
    path("training/export-file", notes.ExportFile.as_view(), name="api-notes-export-file"),
    path("training/stats", notes.Stats.as_view(), name="api-notes-stats"),
    path("training/ab-test", notes.AbTest.as_view(), name="api-notes-ab-test"),
    path("decisions/<str:id>/feedback", notes.DecisionFeedback.as_view(), name="api-notes-decision-feedback"),
    path(
        "status-changes/<str:id>/feedback",
        notes.StatusChangeFeedback.as_view(),
        name="api-notes-status-change-feedback",
    ),
]
