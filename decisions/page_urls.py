"""The ledger's pages under /w/<workspace>/."""

from django.urls import path

from decisions import episode_views, views

urlpatterns = [
    path("decisions/", views.decision_list, name="decisions"),
    path("decisions/label", views.label_queue, name="label"),
    path("decisions/<uuid:pk>", views.decision_detail, name="decision"),
    path("decisions/<uuid:pk>/label", views.decision_label, name="decision-label"),
    path("decisions/<uuid:pk>/unlabel", views.decision_unlabel, name="decision-unlabel"),
    path("episodes/", episode_views.episode_list, name="episodes"),
    path("episodes/<uuid:pk>/", episode_views.episode_detail, name="episode"),
]
