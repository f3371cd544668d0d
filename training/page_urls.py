"""The training floor's pages under /w/<workspace>/. A version's page stands here: it shows evaluations and exports."""

from django.urls import path

from training import views

urlpatterns = [
    path("runs/", views.run_list, name="runs"),
    path("runs/<uuid:pk>", views.run_detail, name="run"),
    path("runs/<uuid:pk>/status", views.run_status, name="run-status"),
    path("runs/<uuid:pk>/curves", views.run_curves, name="run-curves"),
    path("runs/<uuid:pk>/cancel", views.run_cancel, name="run-cancel"),
    path("models/versions/<uuid:pk>", views.version_detail, name="version"),
    path("models/versions/<uuid:pk>/exports", views.version_exports, name="version-exports"),
    path("models/versions/<uuid:pk>/export", views.version_export, name="version-export"),
]
