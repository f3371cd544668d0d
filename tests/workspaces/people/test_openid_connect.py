"""OpenID Connect against a provider in a process of its own: by invitation, connected from the profile, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from django.urls import reverse
from jwt.algorithms import RSAAlgorithm

from project.embedded.valkey import pick_port
from tools.factories import PASSWORD, UserFactory
from workspaces.access.actors import person
from workspaces.models import AuditEntry, Membership, User
from workspaces.people import openid_connect
from workspaces.people.invitations import invite_person, revoke_invitation

pytestmark = pytest.mark.django_db
OTHER_KEY = rsa.generate_private_key(65537, 2048)
ASKED: dict[str, Any] = {"trust_env": False, "verify": False}
"""The provider has no TLS: without this, every request would read all the certificates of this machine first."""


@pytest.fixture(scope="module")
def provider(tmp_path_factory: Any) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("provider")
    address = f"http://127.0.0.1:{(port := pick_port(folder / 'port'))}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)], stdout=log, stderr=log
        )
    try:
        give_up = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{address}/.well-known/openid-configuration", **ASKED).raise_for_status()
                break
            except httpx.HTTPError:
                if time.monotonic() > give_up or process.poll() is not None:
                    raise RuntimeError((folder / "log").read_text()) from None
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(autouse=True)
def oidc(provider: str, settings: Any) -> None:
    settings.OIDC_SERVER, settings.OIDC_NAME = provider, "Acme ID"
    app = {
        "provider_id": "sso",
        "name": "Acme ID",
        "client_id": "reckoner",
        "secret": "s",
        "settings": {"server_url": provider},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}


def come_back(client: Client, sent: Any, sub: str, **claims: Any) -> Any:
    """Logs in at the provider as `sub` and follows it back; the answer of our side."""
    where = sent["Location"]
    base = where.partition("/oauth2/")[0]
    said = {"email": f"{sub}@example.org", "name": sub.title(), **claims}
    httpx.put(f"{base}/users/{sub}", json=said, **ASKED).raise_for_status()
    answer = httpx.post(where, data={"sub": sub}, **ASKED)
    assert answer.status_code == 302, answer.text
    return client.get(answer.headers["Location"].removeprefix("http://testserver"))


def start(client: Client, process: str = "login") -> Any:
    sent = client.post(f"{reverse('openid_connect_login', args=['sso'])}?process={process}")
    assert sent.status_code == 302 and "code_challenge" in sent["Location"]
    return sent


def connect(client: Client, sub: str) -> None:
    """The password is asked for once more: a session that was left open connects nobody."""
    before = SocialAccount.objects.count()
    asked = come_back(client, start(client, "connect"), sub)
    assert asked["Location"] == reverse("account_reauthenticate") and SocialAccount.objects.count() == before
    client.post(asked["Location"], {"password": PASSWORD})


def test_an_invitation_is_accepted_without_a_password(workspace: Any, admin: Any) -> None:
    link = invite_person(by=person(admin, workspace, "admin"), email="ben@example.org", role="labeller").path
    client = Client()
    token = link.partition("token=")[2]
    assert b"Continue with Acme ID" in client.get(link).content
    answer = come_back(client, client.post("/invitation", {"token": token, "provider": "oidc"}), "ben.at.provider")
    overview = reverse("pages:overview", args=[workspace.slug])
    assert answer["Location"] == overview and client.get(overview).status_code == 200
    ben = User.objects.get(email="ben@example.org")
    assert (ben.name, ben.has_usable_password()) == ("Ben.At.Provider", False)
    assert Membership.objects.get(user=ben).role == "labeller"
    # From now on the log-in page's button is enough.
    again = Client()
    assert b"Log in with Acme ID" in again.get("/log-in").content
    assert come_back(again, start(again), "ben.at.provider").status_code == 302
    assert again.get(overview).status_code == 200


def test_an_invitation_that_ends_on_the_way_to_the_provider_is_refused(workspace: Any, admin: Any) -> None:
    by = person(admin, workspace, "admin")
    made = invite_person(by=by, email="cleo@example.org", role="labeller")
    client = Client()
    sent = client.post("/invitation", {"token": made.token, "provider": "oidc"})
    revoke_invitation(by=by, invitation=made.invitation)
    assert come_back(client, sent, "cleo.at.provider").status_code == 410
    assert not User.objects.filter(email="cleo@example.org").exists() and not SocialAccount.objects.exists()


def test_without_an_invitation_nobody_gets_in(workspace: Any, viewer: Any) -> None:
    people = User.objects.count()
    for sub, email in (("stranger", "stranger@example.org"), ("liar", viewer.email)):
        client = Client()
        answer = come_back(client, start(client), sub, email=email, email_verified=True)
        assert b"No account yet" in answer.content
        assert "_auth_user_id" not in client.session
    assert User.objects.count() == people and not SocialAccount.objects.exists()


def test_a_person_connects_it_from_the_profile_and_disconnects_it(viewer: Any, workspace: Any) -> None:
    client = Client()
    client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    connect(client, "viewer.at.provider")
    assert SocialAccount.objects.get().user == viewer
    other = Client()
    come_back(other, start(other), "viewer.at.provider")
    assert other.get(reverse("pages:overview", args=[workspace.slug])).status_code == 200
    account = SocialAccount.objects.get()
    assert str(account.pk) in client.get(reverse("socialaccount_connections")).content.decode()
    client.post(reverse("socialaccount_connections"), {"account": str(account.pk)})
    assert not SocialAccount.objects.exists()
    told = AuditEntry.objects.for_workspace(workspace).order_by("id").values_list("action", flat=True)
    assert list(told) == ["person.provider_connected", "person.provider_disconnected"]


def test_an_invitation_whose_address_has_an_account_is_refused_as_a_page(workspace: Any, admin: Any) -> None:
    link = invite_person(by=person(admin, workspace, "admin"), email=UserFactory().email, role="admin").path
    client, token = Client(), link.partition("token=")[2]
    answer = come_back(client, client.post("/invitation", {"token": token, "provider": "oidc"}), "somebody.new")
    assert answer.status_code == 409 and b"has an account" in answer.content
    assert "_auth_user_id" not in client.session and not SocialAccount.objects.exists()


def forge(monkeypatch: Any, key: Any, algorithm: str, claims: dict[str, Any]) -> None:
    """The provider's answer with another ID token: its own with these claims, signed with this key."""
    real = openid_connect.Adapter.get_access_token_data

    def forged(self: Any, *args: Any, **more: Any) -> Any:
        answer = real(self, *args, **more)
        told = jwt.decode(answer["id_token"], options={"verify_signature": False})
        return answer | {"id_token": jwt.encode(told | claims, key, algorithm=algorithm)}

    monkeypatch.setattr(openid_connect.Adapter, "get_access_token_data", forged)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A server that publishes OTHER_KEY under /keys, and redirects there from everywhere else."""
    published = json.dumps({"keys": [RSAAlgorithm.to_jwk(OTHER_KEY.public_key(), as_dict=True)]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/keys" else 302)
            self.send_header("Location", "/keys")
            self.end_headers()
            self.wfile.write(published if self.path == "/keys" else b"")

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class TestWhatTheProviderSays:
    """Read with our own checks: issuer, signature, and one person in both answers."""

    @pytest.fixture
    def refused(self, viewer: Any) -> Any:
        SocialAccount.objects.create(user=viewer, provider="sso", uid="viewer.at.provider")

        def check() -> None:
            client = Client()
            answer = come_back(client, start(client), "viewer.at.provider")
            assert answer.status_code == 401 and b"The log-in failed" in answer.content
            assert "_auth_user_id" not in client.session

        return check

    def test_nothing_while_it_is_away(self, workspace: Any, admin: Any, settings: Any) -> None:
        app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
        app["settings"] = {"server_url": "http://127.0.0.1:9"}
        link = invite_person(by=person(admin, workspace, "admin"), email="ben@example.org", role="viewer").path
        sent = {"token": link.partition("token=")[2], "provider": "oidc"}
        for path, form in ((f"{reverse('openid_connect_login', args=['sso'])}", {}), ("/invitation", sent)):
            answer = Client().post(path, form)
            assert answer.status_code == 401 and b"The log-in failed" in answer.content

    def test_of_another_issuer(self, settings: Any, provider: str) -> None:
        app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
        app["settings"] = {
            "server_url": provider,
            "openid_configuration_overrides": {"issuer": "https://elsewhere.example.org"},
        }
        client = Client()  # nobody is sent there at all
        answer = client.post(reverse("openid_connect_login", args=["sso"]))
        assert answer.status_code == 401 and b"The log-in failed" in answer.content

    def test_that_leads_elsewhere_is_not_followed(self, refused: Any, settings: Any, elsewhere: str) -> None:
        app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
        app["settings"] |= {"openid_configuration_overrides": {"jwks_uri": f"{elsewhere}/moved"}}
        refused()

    @pytest.mark.parametrize(
        ("claims", "gets_in"),
        [
            ({}, True),
            ({"aud": "another-client"}, False),
            ({"iss": "https://elsewhere.example.org"}, False),
            ({"exp": 1_700_000_000}, False),
            ({"sub": "somebody.else"}, False),
        ],
    )
    def test_that_is_for_another_or_over_or_about_somebody_else(
        self, claims: Any, gets_in: bool, viewer: Any, refused: Any, settings: Any, elsewhere: str, monkeypatch: Any
    ) -> None:
        """Well signed: by a key that the document names, here our own."""
        app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
        app["settings"] |= {"openid_configuration_overrides": {"jwks_uri": f"{elsewhere}/keys"}}
        forge(monkeypatch, OTHER_KEY, "RS256", claims)
        if not gets_in:
            return refused()
        client = Client()
        assert come_back(client, start(client), "viewer.at.provider").status_code == 302
        assert client.session["_auth_user_id"] == str(viewer.pk)
        return None

    @pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
    def test_signed_by_nobody_or_by_another_key(self, refused: Any, monkeypatch: Any, algorithm: str) -> None:
        key: Any = {"none": None, "HS256": "a shared secret of thirty-two bytes"}.get(algorithm, OTHER_KEY)
        forge(monkeypatch, key, algorithm, {})
        refused()

    def test_without_an_id_token(self, refused: Any, monkeypatch: Any) -> None:
        real = openid_connect.Adapter.get_access_token_data
        monkeypatch.setattr(
            openid_connect.Adapter,
            "get_access_token_data",
            lambda *args, **more: {k: v for k, v in real(*args, **more).items() if k != "id_token"},
        )
        refused()


def test_a_log_in_that_was_taken_by_somebody_else_is_not_connected_again(viewer: Any, workspace: Any) -> None:
    owner = Client()
    owner.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    connect(owner, "shared")
    thief_user = UserFactory()
    thief = Client()
    thief.post("/log-in", {"login": thief_user.email, "password": PASSWORD})
    connect(thief, "shared")
    assert SocialAccount.objects.get().user == viewer


def test_an_answer_that_was_not_asked_for_logs_nobody_in(viewer: Any) -> None:
    client = Client()
    answer = client.get(f"{reverse('openid_connect_callback', args=['sso'])}?code=x&state=y")
    assert answer.status_code == 401 and b"The log-in failed" in answer.content
    assert "_auth_user_id" not in client.session
