"""OpenID Connect against a provider in a process of its own: by invitation, connected from the profile, and refused."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.urls import reverse

from project.embedded.valkey import pick_port
from tools.factories import PASSWORD, UserFactory
from workspaces.actors import person
from workspaces.models import Membership, User
from workspaces.people.invitations import invite_person, revoke_invitation

pytestmark = pytest.mark.django_db


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
                httpx.get(f"{address}/.well-known/openid-configuration").raise_for_status()
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
    httpx.put(
        f"{base}/users/{sub}", json={"email": f"{sub}@example.org", "name": sub.title(), **claims}
    ).raise_for_status()
    answer = httpx.post(where, data={"sub": sub})
    assert answer.status_code == 302, answer.text
    return client.get(answer.headers["Location"].removeprefix("http://testserver"))


def start(client: Client, process: str = "login") -> Any:
    sent = client.post(f"{reverse('openid_connect_login', args=['sso'])}?process={process}")
    assert sent.status_code == 302 and "code_challenge" in sent["Location"]
    return sent


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
    come_back(client, start(client, "connect"), "viewer.at.provider")
    assert SocialAccount.objects.get().user == viewer
    other = Client()
    come_back(other, start(other), "viewer.at.provider")
    assert other.get(reverse("pages:overview", args=[workspace.slug])).status_code == 200
    account = SocialAccount.objects.get()
    assert str(account.pk) in client.get(reverse("socialaccount_connections")).content.decode()
    client.post(reverse("socialaccount_connections"), {"account": str(account.pk)})
    assert not SocialAccount.objects.exists()


def test_a_log_in_that_was_taken_by_somebody_else_is_not_connected_again(viewer: Any, workspace: Any) -> None:
    owner = Client()
    owner.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    come_back(owner, start(owner, "connect"), "shared")
    thief_user = UserFactory()
    thief = Client()
    thief.post("/log-in", {"login": thief_user.email, "password": PASSWORD})
    come_back(thief, start(thief, "connect"), "shared")
    assert SocialAccount.objects.get().user == viewer


def test_an_answer_that_was_not_asked_for_logs_nobody_in(viewer: Any) -> None:
    client = Client()
    answer = client.get(f"{reverse('openid_connect_callback', args=['sso'])}?code=x&state=y")
    assert answer.status_code == 401 and b"The log-in failed" in answer.content
    assert "_auth_user_id" not in client.session
