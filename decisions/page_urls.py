"""The ledger's pages under /w/<workspace>/."""

from django.urls import path

from decisions import views

urlpatterns = [
    path("decisions/", views.decision_list, name="decisions"),
    path("decisions/<uuid:pk>", views.decision_detail, name="decision"),
    path("decisions/<uuid:pk>/label", views.decision_label, name="decision-label"),
]
