"""The training floor's pages under /w/<workspace>/."""

from django.urls import path

from training import dataset_views, erasure_views, start_views, views
from training.rehearsal import views as rehearsals

urlpatterns = [
    path("runs/", views.run_list, name="runs"),
    path("runs/new", start_views.run_start, name="run-start"),
    path("runs/train", start_views.train_new, name="train-new"),
    path("runs/<uuid:pk>", views.run_detail, name="run"),
    path("runs/<uuid:pk>/row", views.run_row, name="run-row"),
    path("runs/<uuid:pk>/status", views.run_status, name="run-status"),
    path("runs/<uuid:pk>/curves", views.run_curves, name="run-curves"),
    path("runs/<uuid:pk>/predictions", views.run_predictions, name="run-predictions"),
    path("runs/<uuid:pk>/cancel", views.run_cancel, name="run-cancel"),
    path("datasets/", dataset_views.dataset_list, name="datasets"),
    path("datasets/new", dataset_views.dataset_make, name="dataset-make"),
    path("datasets/<uuid:pk>", dataset_views.dataset_detail, name="dataset"),
    path("datasets/making/<uuid:pk>", dataset_views.dataset_making, name="dataset-making"),
    path("erasures/", erasure_views.erasure_list, name="erasures"),
    path("rehearsals/", rehearsals.rehearsal_list, name="rehearsals"),
    path("rehearsals/new", rehearsals.rehearsal_start, name="rehearsal-start"),
    path("rehearsals/<uuid:pk>/", rehearsals.rehearsal_detail, name="rehearsal"),
    path("rehearsals/<uuid:pk>/status", rehearsals.rehearsal_status, name="rehearsal-status"),
    path("rehearsals/<uuid:pk>/cancel", rehearsals.rehearsal_cancel, name="rehearsal-cancel"),
    path("rehearsals/<uuid:pk>/resume", rehearsals.rehearsal_resume, name="rehearsal-resume"),
]
