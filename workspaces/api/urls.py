"""URLs of /api/v1 about workspaces: keys, people, invitations and the audit."""

from django.urls import path

from workspaces.api import keys as api
from workspaces.people import api as people

urlpatterns = [
    path("keys", api.KeyList.as_view(), name="api-keys"),
    path("keys/<uuid:pk>", api.KeyDetail.as_view(), name="api-key"),
    path("keys/<uuid:pk>/rotate", api.KeyRotate.as_view(), name="api-key-rotate"),
    path("keys/<uuid:pk>/revoke", api.KeyRevoke.as_view(), name="api-key-revoke"),
    path("workspace", people.WorkspaceDetail.as_view(), name="api-workspace"),
    path("workspaces", people.WorkspaceCreate.as_view(), name="api-workspaces"),
    path("members", people.MemberList.as_view(), name="api-members"),
    path("members/<uuid:pk>", people.MemberDetail.as_view(), name="api-member"),
    path("invitations", people.InvitationList.as_view(), name="api-invitations"),
    path("invitations/<uuid:pk>/revoke", people.InvitationRevoke.as_view(), name="api-invitation-revoke"),
    path("audit", people.AuditList.as_view(), name="api-audit"),
]
