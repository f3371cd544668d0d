"""Log lines and audit entries of what happens to a log-in: who got in, who did not, and which proof was changed.

Log-ins and failures are lines of the log only: a stranger could fill the audit, which nobody can empty. A changed
password, second factor or connected provider is an entry in each workspace of the person.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.signals import authentication_step_completed, password_changed, password_reset
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authentication_failed, authenticator_added, authenticator_removed
from allauth.socialaccount.signals import social_account_added, social_account_removed
from allauth.usersessions.models import UserSession
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from workspaces.access.actors import person
from workspaces.access.services import record_audit, secret_hmac
from workspaces.accounts.log_in import client_address
from workspaces.accounts.sessions import BEGAN
from workspaces.models import Membership, User

logger = structlog.get_logger(__name__)


@receiver(user_logged_in)
def _logged_in(request: HttpRequest, user: User, **_: Any) -> None:
    request.session[BEGAN] = time.time()
    methods = [record["method"] for record in get_authentication_records(request, user)]
    logger.info("logged_in", person=str(user.pk), address=client_address(request), methods=methods)


@receiver(authentication_step_completed)
def _confirmed(request: HttpRequest, reauthenticated: bool = False, **_: Any) -> None:
    """Who has just proved again who they are goes on under a new key: one that was stolen before is worth no more."""
    if reauthenticated:
        before = request.session.session_key
        request.session.cycle_key()
        UserSession.objects.filter(session_key=before).update(session_key=request.session.session_key)


@receiver(user_login_failed)
def _log_in_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """What was typed may be a password: a keyed digest is enough to see that two attempts are for one name."""
    typed = str(credentials.get("email") or credentials.get("username") or "").strip().lower()
    address = client_address(request) if request is not None else None
    logger.warning("log_in_failed", account=secret_hmac(typed)[:8].hex(), address=address)


@receiver(authentication_failed)
def _second_factor_failed(request: HttpRequest, user: User, **_: Any) -> None:
    logger.warning("second_factor_failed", person=str(user.pk), address=client_address(request))


@receiver(user_logged_out)
def _logged_out(user: User | None, **_: Any) -> None:
    if user is not None:
        logger.info("logged_out", person=str(user.pk))


@receiver([password_changed, password_reset])
def _password_changed(user: User, **_: Any) -> None:
    _note(user, "person.password_changed")


@receiver([authenticator_added, authenticator_removed])
def _second_factor(signal: Any, user: User, authenticator: Authenticator, **_: Any) -> None:
    if authenticator.type == Authenticator.Type.TOTP:
        _note(user, f"person.two_factor_{'on' if signal is authenticator_added else 'off'}")


@receiver(social_account_added)
def _connected(sociallogin: Any, **_: Any) -> None:
    _note(sociallogin.user, "person.provider_connected")


@receiver(social_account_removed)
def _disconnected(socialaccount: Any, **_: Any) -> None:
    _note(socialaccount.user, "person.provider_disconnected")


@transaction.atomic
def _note(user: User, action: str) -> None:
    logger.info(action, person=str(user.pk))
    for membership in Membership.objects.active().filter(user=user).select_related("workspace"):
        by = person(user, membership.workspace, membership.role)
        record_audit(by=by, action=action, target=f"user:{user.pk}")
