"""Pages about the person; they stand outside any workspace."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from workspaces import views

urlpatterns = [
    path("", views.home, name="home"),
    path("log-in", views.LogIn.as_view(), name="log-in"),
    path("log-out", LogoutView.as_view(), name="log-out"),
    path("change-password", views.ChangePassword.as_view(), name="change-password"),
]
