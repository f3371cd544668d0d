"""Adapters of django-allauth: no sign-up without an invitation, our own count of wrong passwords, and encrypted secrets
of authenticator apps.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from cryptography.fernet import Fernet
from django.conf import settings
from django.http import HttpRequest
from django.shortcuts import render

from workspaces.accounts import log_in
from workspaces.errors import ReckonerError
from workspaces.models import User
from workspaces.people.invitations import accept_invitation

logger = structlog.get_logger(__name__)
INVITATION = "invitation"
"""Where the session keeps the token of an invitation that is accepted by OpenID Connect."""


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": "The e-mail address or the password is wrong.",
        "incorrect_password": "The password is wrong.",
        "account_inactive": "This account is deactivated. Ask an admin.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Nothing: `log_in` counts attempts by account and address together, so that nobody locks an owner out."""

    def reauthenticate(self, user: User, password: str) -> bool:
        attempt = log_in.begin_attempt(account=user.email, address=log_in.client_address(self.request))
        if attempt.wait:
            raise self.validation_error("too_many_login_attempts")
        if not user.check_password(password):
            return False
        attempt.succeeded()
        return True

    def get_client_ip(self, request: HttpRequest) -> str:
        return log_in.client_address(request) or "0.0.0.0"  # noqa: S104 - an address that is not known, not one to bind

    def add_message(
        self, request: HttpRequest, level: int, message_template: str | None = None, *more: Any, **named: Any
    ) -> None:
        """That one is logged in is seen by itself."""
        if message_template != "account/messages/logged_in.txt":
            super().add_message(request, level, message_template, *more, **named)

    def send_notification_mail(self, *_: Any, **__: Any) -> None:
        """No mail server is part of an instance."""


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def get_requests_session(self) -> Any:
        """A provider that redirects what is asked of it counts as one that does not answer."""
        session = super().get_requests_session()
        session.max_redirects = 0
        return session

    def on_authentication_error(self, request: HttpRequest, provider: Any, *, exception: Any = None, **_: Any) -> None:
        reason = type(exception).__name__ if exception else "refused"
        logger.warning("provider_log_in_failed", address=log_in.client_address(request), reason=reason)

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """A log-in that is new here makes an account when its browser came from an invitation, and only then.

        The account has the address that was invited, whatever the provider says: the link is what was trusted.
        """
        token = request.session.pop(INVITATION, None)
        if token is None or sociallogin.is_existing or request.user.is_authenticated:
            return
        name = str(sociallogin.account.extra_data.get("userinfo", {}).get("name", ""))[:200]
        try:
            user = accept_invitation(token=token, name=name)
        except ReckonerError as error:  # it was used or revoked meanwhile, or its address has an account
            page = render(request, "errors/refused.html", {"error": error}, status=error.status)
            raise ImmediateHttpResponse(page) from error
        sociallogin.connect(request, user)


class MFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _cipher().decrypt(encrypted_text.encode()).decode()


def _cipher() -> Fernet:
    """With a key made from SECRET_KEY, which lies outside the database."""
    digest = hashlib.sha256(b"two-factor:" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
