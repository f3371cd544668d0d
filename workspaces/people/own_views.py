"""A person's own pages: accept an invitation, choose a new password, the profile with its sessions, a new workspace."""

from __future__ import annotations

from functools import wraps
from typing import Any

from allauth.account.signals import password_reset
from allauth.account.utils import perform_login
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.password_validation import (
    get_default_password_validators,
    password_validators_help_text_html,
    validate_password,
)
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workspaces.accounts.passwords import NotTheSamePassword
from workspaces.errors import ReckonerError
from workspaces.models import Membership, User
from workspaces.pages.guard import PageRequest, View, refused_as_page
from workspaces.people import accounts
from workspaces.people.creation import create_own_workspace, may_create_workspaces
from workspaces.people.invitations import accept_invitation, find_invitation
from workspaces.people.members import end_sessions, find_by_link, list_sessions
from workspaces.people.openid_connect import send_to_provider


class NewAccountForm(forms.Form):
    name = forms.CharField(max_length=200, required=False, label="Your name")
    password1 = forms.CharField(
        label="Password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    password2 = forms.CharField(
        label="The same password again",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.email = email
        validators = [one for one in get_default_password_validators() if not isinstance(one, NotTheSamePassword)]
        self.fields["password1"].help_text = password_validators_help_text_html(validators)

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        first, second = given.get("password1"), given.get("password2")
        if first and second and first != second:
            self.add_error("password2", "The two passwords differ.")
        elif first:
            try:
                validate_password(first, User(email=self.email, name=given.get("name", "")))
            except ValidationError as error:
                self.add_error("password1", error)
        return given


def own_page(view: View) -> View:
    """A page of whoever is logged in, outside any workspace; a one-time password is changed first."""

    @wraps(view)
    def guarded(request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        if request.user.must_change_password:
            return redirect("change-password")
        return view(request, **kwargs)

    return refused_as_page(guarded)


@login_not_required
@sensitive_post_parameters("token", "password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
@refused_as_page
def invitation(request: HttpRequest) -> HttpResponse:
    """Who has an account joins with it; who has none makes it here, with a password or by OpenID Connect."""
    token = request.POST.get("token") or request.GET.get("token", "")
    found = find_invitation(token)
    person = request.user if isinstance(request.user, User) else None
    form = NewAccountForm(request.POST if "password1" in request.POST else None, email=found.email)
    if request.method == "POST":
        if person is not None:
            accept_invitation(token=token, user=person)
            messages.success(request, f"Welcome to {found.workspace}.")
            return redirect("pages:overview", found.workspace.slug)
        if "provider" in request.POST:
            request.session[accounts.INVITATION] = token
            overview = reverse("pages:overview", args=[found.workspace.slug])
            return send_to_provider(request, settings.OIDC_ID, next_url=overview)
        if form.is_valid():
            user = accept_invitation(
                token=token, name=form.cleaned_data["name"], password=form.cleaned_data["password1"]
            )
            logged_in: HttpResponse = perform_login(
                request, user, redirect_url=reverse("pages:overview", args=[found.workspace.slug])
            )
            return logged_in
    context = {
        "invitation": found,
        "token": token,
        "form": form,
        "has_account": User.objects.filter(email=found.email).exists(),
        "oidc_name": settings.OIDC_NAME if settings.OIDC_SERVER else "",
    }
    response = render(request, "workspaces/invitation.html", context)
    add_never_cache_headers(response)
    return response


@login_not_required
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@refused_as_page
def new_password(request: HttpRequest) -> HttpResponse:
    """Where a link of an admin leads. The new password ends all sessions of the person, and the link."""
    link = request.POST.get("link") or request.GET.get("link", "")
    user = find_by_link(link)
    form = SetPasswordForm(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        form.save()
        User.objects.filter(pk=user.pk).update(must_change_password=False)
        end_sessions(user)
        password_reset.send(sender=User, request=request, user=user)
        messages.success(request, "Your password is changed. Log in with it.")
        return redirect("log-in")
    response = render(request, "workspaces/new_password.html", {"form": form, "link": link, "person": user})
    add_never_cache_headers(response)
    return response


BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
SYSTEMS = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows")),
    *(("Mac OS", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


def describe_browser(user_agent: str) -> str:
    """`Firefox on Windows`; what is not recognised as it was sent."""
    browser, system = (next((name for sign, name in known if sign in user_agent), "") for known in (BROWSERS, SYSTEMS))
    return f"{browser} on {system}" if browser and system else user_agent[:100] or "unknown"


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def profile(request: PageRequest) -> HttpResponse:
    if request.method == "POST":
        name = request.POST.get("name", "").strip()[:200]
        User.objects.filter(pk=request.user.pk).update(name=name)
        messages.success(request, "Your name is changed.")
        return redirect("profile")
    memberships = Membership.objects.active().filter(user=request.user).select_related("workspace")
    context = {
        "memberships": memberships.order_by("workspace__name"),
        "sessions": [
            (session, describe_browser(session.user_agent), session.session_key == request.session.session_key)
            for session in list_sessions(request.user)
        ],
        "two_factor": Authenticator.objects.filter(user=request.user, type=Authenticator.Type.TOTP).exists(),
        "oidc_name": settings.OIDC_NAME if settings.OIDC_SERVER else "",
        "connected": SocialAccount.objects.filter(user=request.user).exists(),
        "may_create": may_create_workspaces(request.user),
    }
    return render(request, "workspaces/profile.html", context)


@require_POST
@own_page
def sessions_end(request: PageRequest) -> HttpResponse:
    """One session of one's own, or with no `session` all others."""
    chosen = request.POST.get("session", "")
    if chosen:
        found = UserSession.objects.filter(user=request.user, pk=chosen if chosen.isdecimal() else 0).first()
        if found is not None:
            found.end()
        messages.success(request, "The session is ended.")
    else:
        ended = end_sessions(request.user, but=request.session.session_key or "")
        messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("profile")


@require_http_methods(["GET", "HEAD", "POST"])
@own_page
def workspace_new(request: PageRequest) -> HttpResponse:
    given = {"name": request.POST.get("name", ""), "slug": request.POST.get("slug", "")}
    faults: dict[str, str] = {}
    status = 200
    if request.method == "POST":
        try:
            made = create_own_workspace(user=request.user, name=given["name"], slug=given["slug"])
        except ReckonerError as error:
            if not error.faults:
                raise
            faults, status = {fault.field: f"{fault.reason}: {fault.expected}" for fault in error.faults}, error.status
        else:
            messages.success(request, f"{made} is ready.")
            return redirect("pages:overview", made.slug)
    return render(request, "workspaces/new.html", {"given": given, "faults": faults}, status=status)
