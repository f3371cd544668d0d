"""URLs of the audit, under /w/<workspace>/audit."""

from django.urls import path

from workspaces.audit import views

urlpatterns = [
    path("audit", views.audit, name="audit"),
    path("audit.csv", views.audit_csv, name="audit-csv"),
]
