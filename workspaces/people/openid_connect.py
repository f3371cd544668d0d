"""OpenID Connect as django-allauth does it, with four checks more: the document is of the issuer that was asked, the ID
token is signed for us, both answers are about the same person, and all of them have the form that is read.
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

from workspaces.storage.storable import is_storable

WELL_KNOWN = "/.well-known/openid-configuration"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of public keys only: with a shared secret's the provider's published key would do as the secret."""
LEEWAY_SECONDS = 30
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
TEXTS = {"sub": 191, "email": 254, **dict.fromkeys(("name", "given_name", "family_name", "preferred_username"), 1000)}
"""Characters of the claims that are read, at most: as many as their columns take, where they are stored."""


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    def get_provider(self) -> Any:
        """One that reads the provider's document by this class on the way to it, too."""
        provider = super().get_provider()
        provider.oauth2_adapter_class = type(self)
        return provider

    @property
    def openid_config(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = super().openid_config
        except (AttributeError, TypeError, ValueError) as error:  # a list, pairs: no object
            raise OAuth2Error("The provider's document is no JSON object.") from error
        asked = str(self.get_provider().server_url).partition(WELL_KNOWN)[0]
        if str(found.get("issuer", "")).rstrip("/") != asked.rstrip("/"):
            raise OAuth2Error(f"The provider at {asked} says that it is {found.get('issuer')!r}.")
        if missing := [name for name in ENDPOINTS if not isinstance(found.get(name), str)]:
            raise OAuth2Error(f"The provider's document has no {' and no '.join(missing)}.")
        return found

    def get_access_token_data(self, *args: Any, **more: Any) -> Any:
        try:
            answer = super().get_access_token_data(*args, **more)
        except (KeyError, TypeError, ValueError) as error:  # no Content-Type, a number: no answer of OAuth 2.0
            raise OAuth2Error("The provider's answer to the code cannot be read.") from error
        if not isinstance(answer, dict) or not isinstance(answer["access_token"], str):
            raise OAuth2Error("The provider's answer to the code has no access token.")
        return answer

    def parse_token(self, data: dict[str, Any]) -> Any:
        """Without its end, since it is not kept, and may be any number."""
        return super().parse_token({name: value for name, value in data.items() if name != self.expires_in_key})

    def _fetch_user_info(self, access_token: str) -> dict[str, Any]:
        return _read_claims(super()._fetch_user_info(access_token))

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
        published = answer.json()
        if not isinstance(published, dict):
            raise OAuth2Error("The provider's keys are no JSON object.")
        try:
            known = jwt.PyJWKSet.from_dict(published).keys
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
        except (jwt.PyJWTError, TypeError, AttributeError, OverflowError) as error:  # keys and times of any shape
            raise OAuth2Error("The ID token is not valid.") from error
        if told.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("The ID token was made for another client.")
        return _read_claims(told)


def _read_claims(told: Any) -> dict[str, Any]:
    """Checks that a provider's claims about a person can be stored and read. An address is verified by `true` alone,
    which some providers send as text: any other text is true to Python."""
    if not isinstance(told, dict) or not is_storable(told):
        raise OAuth2Error("What the provider says of the person cannot be read.")
    for name, most in TEXTS.items():
        value = told.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= most):
            raise OAuth2Error(f"The provider's {name} is not a text of at most {most} characters.")
    if not told.get("sub"):
        raise OAuth2Error("The provider does not say who the person is.")
    verified = told.get("email_verified")
    return {**told, "email_verified": verified is True or verified == "true"}


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
    provider = Adapter(request, provider_id).get_provider()
    answer: HttpResponse = provider.redirect(request, AuthProcess.LOGIN, next_url=next_url)
    return answer
