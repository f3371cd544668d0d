"""OpenID Connect as django-allauth does it, with three checks more: the document is of the issuer that was asked, the
ID token is signed, and both answers are about the same person.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from requests import RequestException

WELL_KNOWN = "/.well-known/openid-configuration"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of public keys only: with a shared secret's the provider's published key would do as the secret."""
LEEWAY_SECONDS = 30


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    @property
    def openid_config(self) -> dict[str, Any]:
        found: dict[str, Any] = super().openid_config
        asked = str(self.get_provider().server_url).partition(WELL_KNOWN)[0]
        if str(found.get("issuer", "")).rstrip("/") != asked.rstrip("/"):
            raise OAuth2Error(f"The provider at {asked} says that it is {found.get('issuer')!r}.")
        return found

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> Any:
        if not kwargs["response"].get("id_token"):
            raise OAuth2Error("The provider sent no ID token.")
        login = super().complete_login(request, app, token, **kwargs)
        told = login.account.extra_data
        if "userinfo" in told and told["userinfo"].get("sub") != told["id_token"].get("sub"):
            raise OAuth2Error("The provider's two answers are about different people.")
        return login

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """Signed, although it came straight from the provider. A provider with one key need not name it."""
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
        try:
            known = jwt.PyJWKSet.from_dict(answer.json()).keys
            name = jwt.get_unverified_header(id_token).get("kid")
            fits = [key for key in known if key.key_id == name or (name is None and len(known) == 1)]
            if not fits:
                raise OAuth2Error("The ID token is signed with a key that the provider does not publish.")
            told: dict[str, Any] = jwt.decode(
                id_token,
                fits[0],
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=LEEWAY_SECONDS,
                options={"require": ["iss", "aud", "exp", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise OAuth2Error("The ID token is not valid.") from error
        return told


def faults_as_page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A provider that is away, or is not the one that was asked, is told as a failed log-in."""

    @login_not_required
    @wraps(view)
    def guarded(request: HttpRequest, provider_id: str, **more: Any) -> HttpResponse:
        try:
            return view(request, provider_id, **more)
        except SocialApp.DoesNotExist as error:
            raise Http404 from error
        except (OAuth2Error, RequestException) as error:
            provider = get_adapter().get_provider(request, provider_id)
            page: HttpResponse = render_authentication_error(request, provider, exception=error)
            return page

    return guarded


@faults_as_page
def log_in(request: HttpRequest, provider_id: str) -> HttpResponse:
    answer: HttpResponse = OAuth2LoginView.adapter_view(Adapter(request, provider_id))(request)
    return answer


@faults_as_page
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    answer: HttpResponse = OAuth2CallbackView.adapter_view(Adapter(request, provider_id))(request)
    return answer


@faults_as_page
def send_to_provider(request: HttpRequest, provider_id: str, *, next_url: str) -> HttpResponse:
    """From an invitation: the answer leads to the provider, and back to `next_url`."""
    provider = get_adapter().get_provider(request, provider_id)
    answer: HttpResponse = provider.redirect(request, AuthProcess.LOGIN, next_url=next_url)
    return answer
