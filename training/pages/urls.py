"""URLs of the training floor's pages, under /w/<workspace>/."""

from django.urls import path

from training.environments import views as environments
from training.environments.solving import views as solving
from training.evaluation.suites import views as suites
from training.imports import views as imports
from training.lineage import erasure_views
from training.loops.pipeline import views as pipelines
from training.loops.rehearsal import views as rehearsals
from training.pages import best
from training.pages import datasets as dataset_views
from training.pages import runs as views
from training.pages import start as start_views
from training.shadows import views as shadows

urlpatterns = [
    path("agents/<slug:agent>/action-quality", solving.action_quality, name="agent-action-quality"),
    path("runs/", views.run_list, name="runs"),
    path("runs/new", start_views.run_start, name="run-start"),
    path("runs/train", start_views.train_new, name="train-new"),
    path("runs/best/new", best.best_new, name="best-new"),
    path("runs/best/<uuid:pk>", best.best_detail, name="best"),
    path("runs/best/<uuid:pk>/cancel", best.best_cancel, name="best-cancel"),
    path("runs/<uuid:pk>", views.run_detail, name="run"),
    path("runs/<uuid:pk>/row", views.run_row, name="run-row"),
    path("runs/<uuid:pk>/status", views.run_status, name="run-status"),
    path("runs/<uuid:pk>/curves", views.run_curves, name="run-curves"),
    path("runs/<uuid:pk>/curves.csv", views.run_curves_csv, name="run-curves-csv"),
    path("runs/<uuid:pk>/predictions", views.run_predictions, name="run-predictions"),
    path("runs/<uuid:pk>/episodes/", environments.run_episodes, name="run-episodes"),
    path("runs/<uuid:pk>/episodes/<int:place>", environments.run_episode, name="run-episode"),
    path("runs/<uuid:pk>/notes", views.run_note, name="run-note"),
    path("runs/<uuid:pk>/cancel", views.run_cancel, name="run-cancel"),
    path("pipelines/", pipelines.pipeline_list, name="pipelines"),
    path("pipelines/new", pipelines.pipeline_new, name="pipeline-new"),
    path("pipelines/<uuid:pk>/row", pipelines.pipeline_row, name="pipeline-row"),
    path("pipelines/<uuid:pk>", pipelines.pipeline_detail, name="pipeline"),
    path("pipelines/<uuid:pk>/cancel", pipelines.pipeline_cancel, name="pipeline-cancel"),
    path("pipelines/<uuid:pk>/resume", pipelines.pipeline_resume, name="pipeline-resume"),
    path("datasets/", dataset_views.dataset_list, name="datasets"),
    path("datasets/new", dataset_views.dataset_make, name="dataset-make"),
    path("datasets/<uuid:pk>", dataset_views.dataset_detail, name="dataset"),
    path("datasets/<uuid:pk>/rows", dataset_views.dataset_rows, name="dataset-rows"),
    path("datasets/making/<uuid:pk>", dataset_views.dataset_making, name="dataset-making"),
    path("environments/", environments.environment_list, name="environments"),
    path("environments/<str:name>/", environments.environment_detail, name="environment"),
    path("environments/<str:name>/draw", environments.environment_draw, name="environment-draw"),
    path("erasures/", erasure_views.erasure_list, name="erasures"),
    path("imports/", imports.import_list, name="imports"),
    path("imports/new", imports.import_new, name="import-new"),
    path("imports/uploads/<uuid:pk>", imports.import_check, name="import-check"),
    path("imports/<uuid:pk>", imports.import_detail, name="import"),
    path("imports/<uuid:pk>/status", imports.import_status, name="import-status"),
    path("imports/<uuid:pk>/cancel", imports.import_cancel, name="import-cancel"),
    path("suites/", suites.suite_list, name="suites"),
    path("suites/new", suites.suite_new, name="suite-new"),
    path("suites/<uuid:pk>", suites.suite_detail, name="suite"),
    path("suites/<uuid:pk>/score", suites.suite_score_ask, name="suite-score-ask"),
    path("suites/scores/<uuid:pk>", suites.suite_score, name="suite-score"),
    path("experiments/shadows/", shadows.shadow_list, name="shadows"),
    path("experiments/shadows/new", shadows.shadow_start, name="shadow-start"),
    path("experiments/shadows/<uuid:pk>", shadows.shadow_detail, name="shadow"),
    path("experiments/shadows/<uuid:pk>/stop", shadows.shadow_stop, name="shadow-stop"),
    path("rehearsals/", rehearsals.rehearsal_list, name="rehearsals"),
    path("rehearsals/new", rehearsals.rehearsal_start, name="rehearsal-start"),
    path("rehearsals/<uuid:pk>/", rehearsals.rehearsal_detail, name="rehearsal"),
    path("rehearsals/<uuid:pk>/status", rehearsals.rehearsal_status, name="rehearsal-status"),
    path("rehearsals/<uuid:pk>/cancel", rehearsals.rehearsal_cancel, name="rehearsal-cancel"),
    path("rehearsals/<uuid:pk>/resume", rehearsals.rehearsal_resume, name="rehearsal-resume"),
]
