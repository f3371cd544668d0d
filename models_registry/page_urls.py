"""The registry's pages under /w/<workspace>/."""

from django.urls import path

from models_registry import views

urlpatterns = [
    path("models/versions/<uuid:pk>/promote", views.version_promote, name="version-promote"),
    path("models/versions/<uuid:pk>/try", views.version_try, name="version-try"),
    path("experiments/", views.experiment_list, name="experiments"),
    path("experiments/<uuid:pk>", views.experiment_detail, name="experiment"),
    path("experiments/<uuid:pk>/status", views.experiment_status, name="experiment-status"),
    path("experiments/<uuid:pk>/evidence", views.experiment_evidence, name="experiment-evidence"),
    path("experiments/<uuid:pk>/stop", views.experiment_stop, name="experiment-stop"),
]
