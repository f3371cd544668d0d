"""/api/v1/keys."""

from django.urls import path

from workspaces import api

urlpatterns = [
    path("keys", api.KeyList.as_view(), name="api-keys"),
    path("keys/<uuid:pk>/rotate", api.KeyRotate.as_view(), name="api-key-rotate"),
    path("keys/<uuid:pk>/revoke", api.KeyRevoke.as_view(), name="api-key-revoke"),
]
