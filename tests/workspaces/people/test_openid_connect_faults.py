"""A provider that is slow, changes its keys or answers in any shape: a page with a next step, and nobody logged in."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from django.urls import reverse
from jwt.algorithms import RSAAlgorithm
from jwt.utils import base64url_encode

from workspaces.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
KEYS = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
CALLBACK = "/account/oidc/sso/login/callback/"


class Provider:
    """Answers as told: `answers` holds, by path, what takes the place of the right answer."""

    def __init__(self) -> None:
        provider, self.answers, self.key, self.claims, self.hang = self, {}, 0, {}, Event()  # type: ignore[var-annotated]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                path = urlsplit(self.path).path
                answer = provider.answers.get(path, getattr(provider, path.rpartition("/")[2].replace("-", "_")))
                body = answer() if callable(answer) else answer
                self.send_response(200)
                if body != b"":
                    self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            do_POST = do_GET  # noqa: N815 - the name that the server looks for

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def openid_configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "userinfo_endpoint": f"{self.origin}/userinfo",
            "jwks_uri": f"{self.origin}/keys",
        }

    def person(self) -> dict[str, Any]:
        return {"sub": "ann", "email": "ann@example.org", "name": "Ann", **self.claims}

    def userinfo(self) -> dict[str, Any]:
        return self.person()

    def keys(self) -> dict[str, Any]:
        key = RSAAlgorithm.to_jwk(KEYS[self.key].public_key(), as_dict=True)
        return {"keys": [{**key, "kid": str(self.key), "use": "sig"}]}

    def id_token(self, **claims: Any) -> str:
        told = {"iss": self.origin, "aud": "reckoner", "exp": int(time.time()) + 300, "iat": int(time.time())}
        return jwt.encode(told | self.person() | claims, KEYS[self.key], "RS256", headers={"kid": str(self.key)})

    def token(self) -> dict[str, Any]:
        return {"access_token": "t", "token_type": "Bearer", "expires_in": 300, "id_token": self.id_token()}


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    made = Provider()
    settings.OIDC_SERVER, settings.OIDC_NAME = made.origin, "Acme ID"
    app = {"provider_id": "sso", "name": "Acme ID", "client_id": "reckoner", "secret": "s"}
    app["settings"] = {"server_url": made.origin, "email_authentication": True}  # type: ignore[assignment]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
    yield made
    made.hang.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def ann(viewer: Any) -> Any:
    SocialAccount.objects.create(user=viewer, provider="sso", uid="ann")
    return viewer


def start(client: Client, query: str = "") -> tuple[Any, str]:
    """What the log-in's button answers, and the state that it gave the provider."""
    sent = client.post(f"{reverse('openid_connect_login', args=['sso'])}{query}")
    return sent, parse_qs(urlsplit(sent.headers.get("Location", "")).query).get("state", [""])[0]


def come_back(client: Client, query: str = "") -> Any:
    sent, state = start(client, query)
    return client.get(CALLBACK, {"code": "c", "state": state}) if sent.status_code == 302 else sent


def is_logged_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def check_refused(answer: Any, client: Client) -> None:
    page = answer.content.decode()
    assert (answer.status_code, is_logged_in(client)) == (401, False), page
    assert "The log-in failed" in page and reverse("log-in") in page


def test_it_logs_in(provider: Provider, ann: Any) -> None:
    client = Client()
    assert come_back(client).status_code == 302 and is_logged_in(client)


@pytest.mark.parametrize("body", [b"", b"<html>", [], ["a"], 7, "text", None, {}, {"keys": 7}, {"keys": [7]}], ids=repr)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/userinfo"])
def test_an_answer_of_any_shape(provider: Provider, ann: Any, path: str, body: Any) -> None:
    provider.answers[path] = body
    client = Client()
    check_refused(come_back(client), client)


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": ["ann"]},
        {"sub": "a" * 10_000},
        {"email": ["ann@example.org"]},
        {"email": "a" * 10_000 + "@example.org"},
        {"name": {"first": "Ann"}},
        {"name": "A\0nn"},
        {"name": "\ud800"},
        {"given_name": 7},
    ],
    ids=lambda claims: str(claims)[:40],
)
def test_claims_of_any_shape(provider: Provider, ann: Any, claims: Any) -> None:
    provider.claims = claims
    if claims.get("sub", "ann") != "ann":
        token = jwt.encode({"iss": provider.origin}, KEYS[0], "RS256")
        provider.answers["/token"] = {"access_token": "t", "id_token": token}
    client = Client()
    check_refused(come_back(client), client)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1_700_000_000},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"exp": "never"},
        {"exp": 10**400},
        {"aud": ["another-client"]},
        {"aud": ["reckoner", "another-client"], "azp": "another-client"},
        {"iss": "https://elsewhere.example.org"},
    ],
    ids=lambda claims: str(claims)[:40],
)
def test_a_token_that_is_over_or_not_yet_or_for_another(provider: Provider, ann: Any, claims: Any) -> None:
    provider.answers["/token"] = lambda: provider.token() | {"id_token": provider.id_token(**claims)}
    client = Client()
    check_refused(come_back(client), client)


@pytest.mark.parametrize("token", [7, [], {"a": 1}, "", "a.b.c", "." * 10])
def test_a_token_that_is_none(provider: Provider, ann: Any, token: Any) -> None:
    provider.answers["/token"] = lambda: provider.token() | {"id_token": token}
    client = Client()
    check_refused(come_back(client), client)


def test_the_published_key_is_no_shared_secret(provider: Provider, ann: Any) -> None:
    """`alg: HS256` with the public key's own text as the secret, and no signature at all."""
    told = jwt.decode(provider.id_token(), options={"verify_signature": False})
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret, algorithm in ((KEYS[0].public_key().public_bytes(*form), "HS256"), (b"", "none")):
        head = base64url_encode(json.dumps({"alg": algorithm, "kid": "0"}).encode())
        signed = head + b"." + base64url_encode(json.dumps(told).encode())
        signature = base64url_encode(hmac.digest(secret, signed, "sha256")) if secret else b""
        token = (signed + b"." + signature).decode()
        provider.answers["/token"] = lambda token=token: provider.token() | {"id_token": token}
        client = Client()
        check_refused(come_back(client), client)


def test_new_keys_are_read_at_once_and_old_ones_open_nothing(provider: Provider, ann: Any) -> None:
    old = provider.id_token()
    provider.key = 1
    client = Client()
    assert come_back(client).status_code == 302 and is_logged_in(client)
    provider.answers["/token"] = lambda: provider.token() | {"id_token": old}
    other = Client()
    check_refused(come_back(other), other)


def test_a_code_and_a_state_are_of_one_use_and_one_browser(provider: Provider, ann: Any) -> None:
    client, thief = Client(), Client()
    _, state = start(client)
    check_refused(thief.get(CALLBACK, {"code": "c", "state": state}), thief)
    assert client.get(CALLBACK, {"code": "c", "state": state}).status_code == 302
    client.post(reverse("log-out"))
    check_refused(client.get(CALLBACK, {"code": "c", "state": state}), client)


def test_who_says_no_at_the_provider_is_led_back(provider: Provider, ann: Any) -> None:
    client = Client()
    _, state = start(client)
    answer = client.get(CALLBACK, {"error": "access_denied", "state": state}, follow=True)
    assert answer.status_code == 200 and reverse("log-in") in answer.content.decode() and not is_logged_in(client)
    for error in ("server_error", "login_required", "<script>"):
        _, state = start(client)
        answer = client.get(CALLBACK, {"error": error, "error_description": "<script>", "state": state})
        check_refused(answer, client)
        assert b"<script>" not in answer.content


@pytest.mark.parametrize("verified", [False, None, "false", "no", "0", 1, "True ", [], {"a": 1}], ids=repr)
def test_an_address_that_is_not_verified_logs_in_to_nobody_s_account(
    provider: Provider, viewer: Any, verified: Any
) -> None:
    """Although the operator trusts the provider's addresses."""
    provider.claims = {"sub": "mallory", "email": viewer.email, "email_verified": verified}
    client = Client()
    answer = come_back(client)
    assert b"No account yet" in answer.content and not is_logged_in(client)
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize("verified", [True, "true"])
def test_an_address_that_is_verified_logs_in(provider: Provider, viewer: Any, verified: Any) -> None:
    provider.claims = {"sub": "vera", "email": viewer.email, "email_verified": verified}
    client = Client()
    assert come_back(client).status_code == 302 and client.session["_auth_user_id"] == str(viewer.pk)


def test_who_was_deactivated_or_removed_is_told_so(provider: Provider, ann: Any) -> None:
    User.objects.filter(pk=ann.pk).update(is_active=False)
    client = Client()
    answer = client.get(come_back(client)["Location"])
    assert b"deactivated" in answer.content and not is_logged_in(client)
    ann.socialaccount_set.all().delete()
    assert b"No account yet" in come_back(client).content and not is_logged_in(client)


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "https:evil.example",
        "/%0d%0aSet-Cookie:a=b",
        "\\\\e",
    ],
)
def test_it_leads_nowhere_else(provider: Provider, ann: Any, place: str) -> None:
    client = Client()
    answer = come_back(client, f"?process=login&next={place}")
    assert answer.status_code == 302 and is_logged_in(client)
    assert answer["Location"].startswith("/") and "evil" not in answer["Location"].partition("?")[0]
    assert "Set-Cookie" not in answer.headers and "a" not in client.cookies


@pytest.mark.parametrize("query", ["?process=nothing", "?process=", "?scope=%00", "?auth_params=a%00b", "?next=%00"])
def test_strange_parameters_of_the_log_in(provider: Provider, ann: Any, query: str) -> None:
    sent, _ = start(Client(raise_request_exception=False), query)
    assert sent.status_code < 500


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/userinfo"])
def test_a_provider_that_does_not_end_its_answer(provider: Provider, ann: Any, path: str) -> None:
    right: Callable[[], Any] = getattr(provider, path.rpartition("/")[2].replace("-", "_"))

    def hang() -> Any:
        provider.hang.wait(60)
        return right()

    provider.answers[path] = hang
    client, began = Client(), time.monotonic()
    check_refused(come_back(client), client)
    assert time.monotonic() - began < 30
