"""Pages about the person: log in, log out, change the password, choose a workspace."""

from __future__ import annotations

from typing import Any, cast

from allauth.account.signals import password_changed
from allauth.account.views import LoginView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRedirect

from workspaces.accounts import log_in
from workspaces.models import Membership, User
from workspaces.pages.guard import PageRequest


@method_decorator(login_not_required, name="dispatch")
class LogIn(LoginView):  # type: ignore[misc]
    """By e-mail address and password, then the second factor of who has one. Who is logged in already goes home."""

    template_name = "registration/login.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        htmx = getattr(request, "htmx", None)
        if htmx and not request.user.is_authenticated:
            # A session that ended while a page polls: open the form as a page, not inside the polled part.
            query = urlencode({"next": htmx.current_url_abs_path or reverse("home")})
            return HttpResponseClientRedirect(f"{reverse('log-in')}?{query}")
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        account = request.POST.get("login", "")
        attempt = log_in.begin_attempt(account=account, address=log_in.client_address(request))
        if attempt.wait:
            form = self.get_form_class()(request=request, initial={"login": account})  # not bound: nothing is looked at
            return _too_many(self, form, attempt.wait)
        response: HttpResponse = super().post(request, *args, **kwargs)
        if response.status_code == 302:  # the password was right
            attempt.succeeded()
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        oidc = settings.OIDC_NAME if settings.OIDC_SERVER else ""
        return {**super().get_context_data(**kwargs), "oidc_name": oidc, "oidc_id": settings.OIDC_ID}


class ChangePassword(auth_views.PasswordChangeView):
    """Every guarded page leads here while a one-time password is in use."""

    success_url = reverse_lazy("home")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The present password is guessed here no more often than at the log-in."""
        user = cast(User, request.user)
        attempt = log_in.begin_attempt(account=user.email, address=log_in.client_address(request))
        if attempt.wait:
            return _too_many(self, self.get_form_class()(user), attempt.wait)
        form = self.get_form()
        if form.is_valid():
            attempt.succeeded()
            return self.form_valid(form)
        if "old_password" not in form.errors:
            attempt.succeeded()
        return self.form_invalid(form)

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        user = cast(User, self.request.user)
        User.objects.filter(pk=user.pk, must_change_password=True).update(must_change_password=False)
        password_changed.send(sender=User, request=self.request, user=user)  # the list of sessions follows
        messages.success(self.request, "Your password is changed.")
        return response


def _too_many(view: Any, form: Any, wait: int) -> HttpResponse:
    """The empty form with the reason, 429."""
    minutes = max(1, round(wait / 60))
    reason = f"Too many failed attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
    response: HttpResponse = view.render_to_response(view.get_context_data(form=form, reason=reason), status=429)
    response["Retry-After"] = str(wait)
    return response


@require_safe
def home(request: PageRequest) -> HttpResponse:
    """Opens the person's workspace; shows a choice where there are several."""
    if request.user.must_change_password:
        return redirect("change-password")
    memberships = list(
        Membership.objects.active().filter(user=request.user).select_related("workspace").order_by("workspace__name")
    )
    if len(memberships) == 1:
        return redirect("pages:overview", memberships[0].workspace.slug)
    return render(request, "workspaces/choose.html", {"memberships": memberships})
