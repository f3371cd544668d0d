"""URLs of pages about the person, outside any workspace. django-allauth finds its own by its own names."""

from allauth.account import views as account_views
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from workspaces.accounts import views
from workspaces.people import openid_connect, own_views

urlpatterns = [
    path("", views.home, name="home"),
    path("log-in", views.LogIn.as_view(), name="log-in"),
    path("log-in", views.LogIn.as_view(), name="account_login"),
    path("log-out", LogoutView.as_view(), name="log-out"),
    path("change-password", views.ChangePassword.as_view(), name="change-password"),
    path("new-password", own_views.new_password, name="new-password"),
    path("invitation", own_views.invitation, name="invitation"),
    path("profile", own_views.profile, name="profile"),
    path("profile/sessions/end", own_views.sessions_end, name="sessions-end"),
    path("workspaces/new", own_views.workspace_new, name="workspace-new"),
    path("account/confirm", account_views.reauthenticate, name="account_reauthenticate"),
    path("account/deactivated", account_views.account_inactive, name="account_inactive"),
    path("account/two-factor/", include("allauth.mfa.urls")),
    path("account/connections/", include("allauth.socialaccount.urls")),
    path("account/oidc/<str:provider_id>/login/", openid_connect.log_in),  # these two before django-allauth's own
    path("account/oidc/<str:provider_id>/login/callback/", openid_connect.callback),
    path("account/", include("allauth.socialaccount.providers.openid_connect.urls")),
]
