"""URLs of a workspace's people, under /w/<workspace>/people."""

from django.urls import path

from workspaces.people import views

urlpatterns = [
    path("people", views.people, name="people"),
    path("people/invite", views.invite, name="person-invite"),
    path("people/invitations/<uuid:pk>/revoke", views.invitation_revoke, name="invitation-revoke"),
    path("people/rename", views.rename, name="workspace-rename"),
    path("people/approvals", views.approvals, name="workspace-approvals"),
    path("people/leave", views.leave, name="workspace-leave"),
    path("people/<uuid:pk>/role", views.role_change, name="person-role"),
    path("people/<uuid:pk>/deactivate", views.deactivate, name="person-deactivate"),
    path("people/<uuid:pk>/reactivate", views.reactivate, name="person-reactivate"),
    path("people/<uuid:pk>/password-link", views.password_link, name="person-password-link"),
]
