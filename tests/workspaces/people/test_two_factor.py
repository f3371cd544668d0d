"""The second factor: an authenticator app's code after the password, recovery codes, and the operator's way out."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import InvalidToken
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.authenticator import code_of
from tools.factories import PASSWORD
from workspaces.models import AuditEntry


def log_in(person: Any) -> tuple[Client, Any]:
    client = Client()
    return client, client.post("/log-in", {"login": person.email, "password": PASSWORD})


@pytest.fixture
def secret(viewer: Any) -> str:
    """Of the viewer's app: turned on as on the pages, after a log-in."""
    client, _ = log_in(viewer)
    asked = client.get(reverse("mfa_activate_totp"))
    assert asked["Location"].startswith("/account/confirm?next=")  # a session that was left open turns nothing on
    assert client.post(asked["Location"], {"password": "wrong"}).status_code == 200
    assert client.post(asked["Location"], {"password": PASSWORD})["Location"] == reverse("mfa_activate_totp")
    page = client.get(reverse("mfa_activate_totp"))
    found = re.search(r'id="secret"[^>]*value="([A-Z2-7]+)"', page.content.decode())
    assert found is not None
    assert client.post(reverse("mfa_activate_totp"), {"code": "000000"}).status_code == 200
    assert not Authenticator.objects.exists()
    done = client.post(reverse("mfa_activate_totp"), {"code": code_of(found[1], -1)})
    assert done["Location"] == reverse("mfa_view_recovery_codes")
    return found[1]


def test_the_password_alone_opens_nothing_any_more(secret: str, viewer: Any, workspace: Any) -> None:
    overview = reverse("pages:overview", args=[workspace.slug])
    client, answer = log_in(viewer)
    assert answer["Location"].startswith(reverse("mfa_authenticate"))
    assert client.get(overview).status_code == 302 and "_auth_user_id" not in client.session
    assert b"Incorrect code" in client.post(reverse("mfa_authenticate"), {"code": "123456"}).content
    assert client.get(overview).status_code == 302
    assert client.post(reverse("mfa_authenticate"), {"code": code_of(secret)}).status_code == 302
    assert client.get(overview).status_code == 200


def test_a_code_works_once_and_ten_wrong_ones_close_it(secret: str, viewer: Any) -> None:
    code = code_of(secret)
    first, _ = log_in(viewer)
    assert first.post(reverse("mfa_authenticate"), {"code": code}).status_code == 302
    second, _ = log_in(viewer)
    assert second.post(reverse("mfa_authenticate"), {"code": code}).status_code == 200
    for _ in range(10):
        second.post(reverse("mfa_authenticate"), {"code": "000001"})
    assert second.post(reverse("mfa_authenticate"), {"code": code_of(secret, 1)}).status_code == 200
    assert "_auth_user_id" not in second.session


def test_a_recovery_code_opens_once(secret: str, viewer: Any) -> None:
    codes = Authenticator.objects.get(type=Authenticator.Type.RECOVERY_CODES).wrap().get_unused_codes()
    client, _ = log_in(viewer)
    assert client.post(reverse("mfa_authenticate"), {"code": codes[0]}).status_code == 302
    assert "_auth_user_id" in client.session
    again, _ = log_in(viewer)
    assert again.post(reverse("mfa_authenticate"), {"code": codes[0]}).status_code == 200


def test_the_database_alone_does_not_give_the_secret_away(secret: str) -> None:
    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored and "secret" in stored


def test_an_encrypted_secret_that_was_changed_is_refused(secret: str, viewer: Any) -> None:
    row = Authenticator.objects.get(type=Authenticator.Type.TOTP)
    stored = row.data["secret"]
    row.data["secret"] = stored[:-6] + ("A" if stored[-6] != "A" else "B") + stored[-5:]
    with pytest.raises(InvalidToken):
        row.wrap().validate_code(code_of(secret))


def test_a_password_link_does_not_go_round_it(
    secret: str, viewer: Any, admin: Any, workspace: Any, page_client: Any
) -> None:
    path = reverse("pages:person-password-link", args=[workspace.slug, viewer.memberships.get(workspace=workspace).pk])
    link = page_client(admin).post(path, follow=True).context["link"]["url"]
    new, client = "a harbour full of kites", Client()
    assert client.post(link, {"new_password1": new, "new_password2": new})["Location"] == "/log-in"
    answer = client.post("/log-in", {"login": viewer.email, "password": new})
    assert answer["Location"].startswith(reverse("mfa_authenticate")) and "_auth_user_id" not in client.session


def test_the_operator_turns_it_off_for_who_lost_the_app(secret: str, viewer: Any, workspace: Any) -> None:
    call_command("people", "remove-two-factor", viewer.email, workspace=workspace.slug, stdout=io.StringIO())
    client, answer = log_in(viewer)
    assert answer.status_code == 302 and "_auth_user_id" in client.session


@pytest.mark.django_db(transaction=True)
def test_turning_it_on_and_off_stands_in_the_audit(secret: str, viewer: Any, workspace: Any) -> None:
    client, _ = log_in(viewer)
    client.post(reverse("mfa_authenticate"), {"code": code_of(secret)})
    asked = client.post(reverse("mfa_deactivate_totp"))
    assert "/account/" in asked["Location"] and Authenticator.objects.exists()
    client.post(f"/account/confirm?next={reverse('mfa_deactivate_totp')}", {"password": PASSWORD})
    client.post(reverse("mfa_deactivate_totp"))
    assert not Authenticator.objects.exists()
    told = AuditEntry.objects.for_workspace(workspace).order_by("id").values_list("action", "actor")
    assert list(told) == [("person.two_factor_on", viewer.email), ("person.two_factor_off", viewer.email)]


def test_where_it_is_required_nothing_opens_without_it(viewer: Any, workspace: Any, settings: Any) -> None:
    settings.TWO_FACTOR_REQUIRED = True
    overview, header = reverse("pages:overview", args=[workspace.slug]), {"X-Workspace": workspace.slug}
    client, _ = log_in(viewer)
    assert client.get(overview)["Location"] == reverse("mfa_activate_totp")
    assert client.get("/api/v1/agents", headers=header).status_code == 401
    Authenticator.objects.create(user=viewer, type=Authenticator.Type.TOTP, data={})
    assert client.get(overview).status_code == 200
    assert client.get("/api/v1/agents", headers=header).status_code == 200


def test_the_people_page_says_who_has_it(secret: str, admin: Any, workspace: Any, page_client: Any) -> None:
    found = page_client(admin).get(reverse("pages:people", args=[workspace.slug])).context["members"]
    assert {str(one.user.email): one.two_factor for one in found}["viewer@example.org"] is True
    assert sum(one.two_factor for one in found) == 1


class TestSessions:
    def test_they_are_listed_and_ended_one_by_one_or_all(self, viewer: Any) -> None:
        here, elsewhere, third = (log_in(viewer)[0] for _ in range(3))
        sessions = here.get("/profile").context["sessions"]
        assert len(sessions) == 3 and sum(is_this for _, _, is_this in sessions) == 1
        theirs = next(s for s, _, _ in sessions if s.session_key == elsewhere.session.session_key)
        here.post("/profile/sessions/end", {"session": str(theirs.pk)})
        assert elsewhere.get("/profile").status_code == 302
        assert third.get("/profile").status_code == 200
        here.post("/profile/sessions/end")
        assert third.get("/profile").status_code == 302 and here.get("/profile").status_code == 200

    def test_the_operator_ends_all_of_somebody_s(self, viewer: Any, admin: Any, workspace: Any) -> None:
        theirs, mine = log_in(viewer)[0], log_in(admin)[0]
        call_command("people", "end-sessions", viewer.email, workspace=workspace.slug, stdout=io.StringIO())
        assert theirs.get("/profile").status_code == 302 and mine.get("/profile").status_code == 200
        entry = AuditEntry.objects.for_workspace(workspace).get()
        assert (entry.action, entry.details["sessions"]) == ("person.sessions_ended", 1)

    def test_nobody_ends_another_person_s(self, viewer: Any, admin: Any) -> None:
        theirs, _ = log_in(viewer)
        session = theirs.get("/profile").context["sessions"][0][0]
        mine, _ = log_in(admin)
        mine.post("/profile/sessions/end", {"session": str(session.pk)})
        assert theirs.get("/profile").status_code == 200
