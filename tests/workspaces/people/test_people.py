"""People of a workspace: invited by a link, given a role, deactivated, let in again; and what each may not."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tools.factories import PASSWORD, MembershipFactory, WorkspaceFactory
from workspaces.models import AuditEntry, Invitation, Membership, Role, User

OWN_PASSWORD = "a harbour full of kites"
NEW_ACCOUNT = {"name": "Ben", "password1": OWN_PASSWORD, "password2": OWN_PASSWORD}


def url(workspace: Any, name: str, *more: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug, *more])


def membership(workspace: Any, user: Any) -> Membership:
    return Membership.objects.get(workspace=workspace, user=user)


def actions(workspace: Any) -> list[str]:
    return list(AuditEntry.objects.for_workspace(workspace).order_by("id").values_list("action", flat=True))


@pytest.fixture
def invite(admin: Any, workspace: Any, page_client: Any) -> Any:
    """Makes an invitation as an admin does, and gives the link that the page shows."""

    def made(email: str = "ben@example.org", role: str = "labeller") -> str:
        client = page_client(admin)
        answer = client.post(url(workspace, "person-invite"), {"email": email, "role": role}, follow=True)
        assert answer.status_code == 200, answer.content
        link = str(answer.context["link"]["url"])
        assert link.encode() in answer.content.replace(b"&amp;", b"&")
        return link.removeprefix("http://testserver")

    return made


class TestInvitations:
    def test_a_link_makes_an_account_and_lets_it_in_once(self, invite: Any, workspace: Any) -> None:
        link = invite()
        assert parse_qs(urlsplit(link).query)["token"][0] not in str(Invitation.objects.values())
        client = Client()
        assert b"ben@example.org" in client.get(link).content
        answer = client.post(link, NEW_ACCOUNT)
        assert answer["Location"] == url(workspace, "overview")
        assert client.get(answer["Location"]).status_code == 200
        ben = User.objects.get(email="ben@example.org")
        assert (ben.name, membership(workspace, ben).role) == ("Ben", "labeller")
        assert actions(workspace) == ["person.invited", "person.joined"]
        again = Client().post(link, NEW_ACCOUNT)
        assert again.status_code == 410 and b"no longer valid" in again.content
        assert User.objects.filter(email__startswith="ben").count() == 1

    def test_a_weak_or_mistyped_password_makes_no_account(self, invite: Any) -> None:
        link = invite()
        for wrong in ({"password1": "12345678", "password2": "12345678"}, {"password2": "something else"}):
            assert Client().post(link, NEW_ACCOUNT | wrong).status_code == 200
        assert not User.objects.filter(email="ben@example.org").exists()
        assert Invitation.objects.get().accepted_at is None

    def test_who_has_an_account_joins_with_it_and_nobody_else_does(
        self, invite: Any, workspace: Any, viewer: Any, outsider: Any, page_client: Any
    ) -> None:
        link = invite(outsider.email, "viewer")
        assert b"has an account" in Client().get(link).content
        assert Client().post(link, NEW_ACCOUNT).status_code == 409
        assert page_client(viewer).post(link).status_code == 409
        assert not Membership.objects.filter(workspace=workspace, user=outsider).exists()
        assert page_client(outsider).post(link)["Location"] == url(workspace, "overview")
        assert membership(workspace, outsider).role == "viewer"

    def test_a_second_invitation_ends_the_first_and_a_revoked_or_old_one_opens_nothing(
        self, invite: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        first, second = invite(), invite()
        assert Client().get(first).status_code == 410
        assert Client().get(second).status_code == 200
        pk = Invitation.objects.get(revoked_at=None).pk
        page_client(admin).post(url(workspace, "invitation-revoke", pk))
        assert Client().get(second).status_code == 410
        third = invite()
        Invitation.objects.filter(revoked_at=None).update(expires_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        assert Client().post(third, NEW_ACCOUNT).status_code == 410
        assert Client().get("/invitation?token=nothing").status_code == 410
        assert not User.objects.filter(email="ben@example.org").exists()

    def test_a_form_that_is_not_usable_comes_back_with_its_faults(
        self, workspace: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        client = page_client(admin)
        for email, role, status in (
            ("no address", "viewer", 400),
            ("x@example.org", "king", 400),
            (viewer.email, "viewer", 409),
        ):
            answer = client.post(url(workspace, "person-invite"), {"email": email, "role": role})
            assert answer.status_code == status and b"The invitation was not made." in answer.content
            assert email.encode() in answer.content
        assert not Invitation.objects.exists()


class TestRoles:
    def test_a_role_changes_what_a_person_may_at_once(
        self, workspace: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        theirs = page_client(viewer)
        assert theirs.post(url(workspace, "person-invite"), {}).status_code == 403
        pk = membership(workspace, viewer).pk
        page_client(admin).post(url(workspace, "person-role", pk), {"role": "admin"})
        assert (
            theirs.post(url(workspace, "person-invite"), {"email": "c@example.org", "role": "viewer"}).status_code
            == 302
        )
        assert AuditEntry.objects.for_workspace(workspace).filter(action="person.role_changed").count() == 1

    def test_a_deactivated_person_sees_nothing_and_keeps_the_account(
        self, workspace: Any, admin: Any, labeller: Any, page_client: Any, api: Any
    ) -> None:
        theirs, pk = page_client(labeller), membership(workspace, labeller).pk
        assert b"Deactivate" in page_client(admin).post(url(workspace, "person-deactivate", pk)).content
        assert membership(workspace, labeller).deactivated_at is None
        page_client(admin).post(url(workspace, "person-deactivate", pk), {"confirmed": "1"})
        assert theirs.get(url(workspace, "overview")).status_code == 404
        assert theirs.get("/api/v1/agents", headers={"X-Workspace": workspace.slug}).status_code == 401
        assert b"in no workspace" in theirs.get("/").content
        page_client(admin).post(url(workspace, "person-reactivate", pk))
        assert theirs.get(url(workspace, "overview")).status_code == 200
        assert actions(workspace) == ["person.deactivated", "person.reactivated"]

    def test_the_last_admin_stays(self, workspace: Any, admin: Any, viewer: Any, page_client: Any) -> None:
        client, pk = page_client(admin), membership(workspace, admin).pk
        for name, form in (("person-role", {"role": "viewer"}), ("person-deactivate", {"confirmed": "1"})):
            assert client.post(url(workspace, name, pk), form).status_code == 409
        assert client.post(url(workspace, "workspace-leave"), {"confirmed": "1"}).status_code == 409
        assert membership(workspace, admin).role == Role.ADMIN and not actions(workspace)
        client.post(url(workspace, "person-role", membership(workspace, viewer).pk), {"role": "admin"})
        assert client.post(url(workspace, "workspace-leave"), {"confirmed": "1"})["Location"] == "/"
        assert client.get(url(workspace, "overview")).status_code == 404

    @pytest.mark.django_db(transaction=True)
    def test_of_two_admins_who_leave_at_once_one_stays(
        self, workspace: Any, admin: Any, page_client: Any, at_once: Any
    ) -> None:
        second = MembershipFactory(workspace=workspace).user
        clients = iter([page_client(admin), page_client(second)])
        answers = at_once(2, lambda: next(clients).post(url(workspace, "workspace-leave"), {"confirmed": "1"}))
        assert sorted(answer.status_code for answer in answers) == [302, 409]
        assert Membership.objects.active().filter(workspace=workspace).count() == 1


class TestWhoIsGone:
    """An admin who leaves takes every link along that they kept for themselves."""

    @pytest.fixture
    def second(self, workspace: Any) -> Any:
        return MembershipFactory(workspace=workspace).user

    @pytest.mark.parametrize(
        ("name", "form"), [("person-deactivate", {"confirmed": "1"}), ("person-role", {"role": "viewer"})]
    )
    def test_their_open_invitations_and_password_links_end(
        self, name: str, form: dict[str, str], workspace: Any, admin: Any, second: Any, viewer: Any, page_client: Any
    ) -> None:
        theirs = page_client(second)
        invited = theirs.post(url(workspace, "person-invite"), {"email": "x@example.org", "role": "admin"}, follow=True)
        link = invited.context["link"]["url"]
        reset = theirs.post(url(workspace, "person-password-link", membership(workspace, viewer).pk), follow=True)
        assert Client().get(link).status_code == Client().get(reset.context["link"]["url"]).status_code == 200
        page_client(admin).post(url(workspace, name, membership(workspace, second).pk), form)
        assert Client().post(link, NEW_ACCOUNT).status_code == 410
        assert Client().get(reset.context["link"]["url"]).status_code == 410
        assert not User.objects.filter(email="x@example.org").exists()

    def test_their_own_open_invitation_lets_nobody_back_in(
        self, invite: Any, workspace: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        row = membership(workspace, viewer)
        Membership.objects.filter(pk=row.pk).delete()
        link = invite(viewer.email, "admin")
        MembershipFactory(workspace=workspace, user=viewer, role="viewer")
        page_client(admin).post(
            url(workspace, "person-deactivate", membership(workspace, viewer).pk), {"confirmed": "1"}
        )
        assert page_client(viewer).post(link).status_code == 410
        assert membership(workspace, viewer).deactivated_at is not None

    def test_their_sessions_end_with_their_last_workspace(
        self, workspace: Any, other_workspace: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        MembershipFactory(workspace=other_workspace, user=viewer, role="viewer")
        theirs = Client()
        theirs.post("/log-in", {"login": viewer.email, "password": PASSWORD})
        page_client(admin).post(
            url(workspace, "person-deactivate", membership(workspace, viewer).pk), {"confirmed": "1"}
        )
        assert theirs.get("/profile").status_code == 200
        elsewhere = MembershipFactory(workspace=other_workspace, role="admin").user
        path = url(other_workspace, "person-deactivate", membership(other_workspace, viewer).pk)
        page_client(elsewhere).post(path, {"confirmed": "1"})
        assert theirs.get("/profile").status_code == 302


class TestADeactivatedAccount:
    def call(self, action: str, user: Any, **options: Any) -> None:
        call_command(
            "people", action, user.email, everywhere=True, stdout=io.StringIO(), stderr=io.StringIO(), **options
        )

    def test_it_opens_nothing_anywhere_until_it_is_reactivated(
        self, workspace: Any, admin: Any, viewer: Any, page_client: Any, api: Any
    ) -> None:
        second = MembershipFactory(user=viewer, role="labeller").workspace
        theirs, people = page_client(viewer), url(workspace, "people")
        for action, status, state in (("deactivate", 302, "deactivated"), ("reactivate", 200, "active")):
            for _ in range(2):
                self.call(action, viewer)
            if action == "reactivate":
                theirs = page_client(viewer)
            assert [theirs.get(f"/w/{one.slug}/").status_code for one in (workspace, second)] == [status] * 2
            found = {one["email"]: one["state"] for one in api().get("members").json()["results"]}
            assert found[viewer.email] == state
            assert (b"account deactivated" in page_client(admin).get(people).content) == (status == 302)
            for one in (workspace, second):
                assert AuditEntry.objects.filter(workspace=one, action=f"account.{action}d").count() == 1
        assert Membership.objects.get(workspace=second, user=viewer).role == "labeller"

    def test_nothing_changes_where_it_is_the_only_admin_s_or_is_nobody_s(self, workspace: Any, admin: Any) -> None:
        for action, email in (("deactivate", admin.email), ("deactivate", "nobody@example.org"), ("list", admin.email)):
            with pytest.raises(SystemExit) as stopped:
                call_command("people", action, email, everywhere=True, stderr=io.StringIO())
            assert stopped.value.code == 2
        assert User.objects.get(pk=admin.pk).is_active and not AuditEntry.objects.exists()


class TestPasswordLinks:
    @pytest.fixture
    def old_session(self, viewer: Any) -> Client:
        client = Client()
        client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
        return client

    @pytest.fixture
    def link(self, workspace: Any, admin: Any, viewer: Any, page_client: Any, old_session: Client) -> str:
        path = url(workspace, "person-password-link", membership(workspace, viewer).pk)
        answer = page_client(admin).post(path, follow=True)
        return str(answer.context["link"]["url"]).removeprefix("http://testserver")

    def test_it_takes_one_new_password_and_ends_the_sessions(
        self, link: str, viewer: Any, workspace: Any, old_session: Client
    ) -> None:
        assert old_session.get(url(workspace, "overview")).status_code == 200
        client = Client()
        refused = client.post(link, {"new_password1": "12345678", "new_password2": "12345678"})
        assert refused.status_code == 200 and User.objects.get(pk=viewer.pk).check_password(PASSWORD)
        done = client.post(link, {"new_password1": OWN_PASSWORD, "new_password2": OWN_PASSWORD})
        assert done["Location"] == "/log-in"
        assert old_session.get(url(workspace, "overview")).status_code == 302
        assert client.post("/log-in", {"login": viewer.email, "password": OWN_PASSWORD}).status_code == 302
        assert Client().get(link).status_code == 410

    def test_nobody_makes_one_for_a_person_of_a_workspace_that_is_not_theirs(
        self, workspace: Any, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        MembershipFactory(workspace=WorkspaceFactory(), user=viewer)
        path = url(workspace, "person-password-link", membership(workspace, viewer).pk)
        for _ in range(2):
            answer = page_client(admin).post(path)
            assert answer.status_code == 403 and b"1 other workspace" in answer.content
            # Who is deactivated there may come back there.
            Membership.objects.exclude(workspace=workspace).update(
                deactivated_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
            )
        assert not actions(workspace)
        said = io.StringIO()
        call_command("people", "password-link", viewer.email, workspace=workspace.slug, stdout=said)
        assert said.getvalue().startswith("http://localhost:8000/new-password?link=")

    def test_it_ends_when_the_person_joins_another_workspace(self, link: str, viewer: Any) -> None:
        MembershipFactory(workspace=WorkspaceFactory(), user=viewer)
        assert Client().get(link).status_code == 410

    def test_a_link_that_was_changed_opens_nothing(self, link: str) -> None:
        for wrong in ("/new-password", "/new-password?link=x.y", f"{link}0", link.replace(".", "%00.")):
            assert Client().get(wrong).status_code in (400, 410), wrong


class TestWorkspaces:
    def test_an_admin_makes_one_and_others_do_not(self, admin: Any, viewer: Any, page_client: Any) -> None:
        client = page_client(admin)
        made = client.post("/workspaces/new", {"name": "Second house", "slug": ""})
        assert made["Location"] == "/w/second-house/"
        taken = client.post("/workspaces/new", {"name": "Another", "slug": "second-house"})
        assert taken.status_code == 400 and b"Is taken" in taken.content
        assert page_client(viewer).post("/workspaces/new", {"name": "Mine"}).status_code == 403
        assert client.post("/w/second-house/people/rename", {"name": "Zweites Haus"}).status_code == 302
        assert "Zweites Haus" in client.get("/w/second-house/").content.decode()

    def test_a_program_makes_one_for_an_admin_of_its_own(
        self, workspace: Any, admin: Any, labeller: Any, outsider: Any, api: Any
    ) -> None:
        client = api()
        made = client.post("workspaces", {"name": "Second house", "admin": admin.email})
        assert (made.status_code, made.json()["slug"]) == (201, "second-house")
        assert Membership.objects.get(workspace__slug="second-house").user == admin
        created = AuditEntry.objects.filter(action="workspace.created", actor=f"key:{client.key.prefix}")
        assert {entry.workspace.slug for entry in created} == {workspace.slug, "second-house"}
        here = {"X-Workspace": workspace.slug}
        assert api.person(admin).post("workspaces", {"name": "Third", "slug": "third"}, **here).status_code == 201
        before = Membership.objects.count()
        for fields in (
            {},
            {"admin": labeller.email},
            {"admin": outsider.email},
            {"slug": "third", "admin": admin.email},
        ):
            answer = client.post("workspaces", {"name": "Mine", **fields})
            assert (answer.status_code, len(answer.json()["error"]["fields"])) == (400, 1), fields
        assert api.person(labeller).post("workspaces", {"name": "Mine"}).status_code == 403
        assert Membership.objects.count() == before

    def test_the_commands_list_make_and_rename(self, workspace: Any, admin: Any) -> None:
        def said(*words: str, **options: Any) -> Any:
            out = io.StringIO()
            call_command(*words, stdout=out, json=True, **options)
            return json.loads(out.getvalue())

        assert said("workspaces", "create", "lab", name="Lab", admin=admin.email) == {"slug": "lab", "name": "Lab"}
        said("workspaces", "rename", "lab", name="Laboratory")
        assert {"slug": "lab", "name": "Laboratory", "people": 1} in said("workspaces", "list")["workspaces"]
        link = said("people", "invite", "ben@example.org", role="viewer", workspace="lab")["link"]
        assert Client().get(link.removeprefix("http://localhost:8000")).status_code == 200
        people = said("people", "list", workspace="lab")["people"]
        assert [(one["email"], one["role"]) for one in people] == [(admin.email, "admin")]
        for words in (("role", "nobody@example.org"), ("deactivate", admin.email), ("invite", "ben@example.org")):
            with pytest.raises(SystemExit) as stopped:
                call_command(
                    "people",
                    *words,
                    workspace="lab",
                    role="viewer" if words[0] == "role" else None,
                    stderr=io.StringIO(),
                )
            assert stopped.value.code == 2


def test_everyone_sees_the_people_and_only_admins_the_invitations(
    invite: Any, workspace: Any, viewer: Any, outsider: Any, page_client: Any
) -> None:
    invite()
    shown = page_client(viewer).get(url(workspace, "people")).content
    assert viewer.email.encode() in shown and b"ben@example.org" not in shown and b"Invite" not in shown
    assert b"Two-factor</th>" not in shown and b"Last log-in" not in shown  # who lacks it is for admins alone
    assert page_client(outsider).get(url(workspace, "people")).status_code == 404


def test_the_page_s_statements_do_not_grow_with_the_people(workspace: Any, admin: Any, page_client: Any) -> None:
    client, path = page_client(admin), url(workspace, "people")
    client.get(path)
    with CaptureQueriesContext(connection) as few:
        client.get(path)
    MembershipFactory.create_batch(5, workspace=workspace)
    with CaptureQueriesContext(connection) as many:
        client.get(path)
    assert len(many) == len(few)


class TestByApi:
    def test_people_are_listed_changed_and_invited(self, workspace: Any, viewer: Any, admin: Any, api: Any) -> None:
        client = api("admin")
        found = {one["email"]: one for one in client.get("members").json()["results"]}
        changed = client.request("PATCH", f"members/{found[viewer.email]['id']}", {"role": "labeller", "active": False})
        assert (changed.json()["role"], changed.json()["state"]) == ("labeller", "deactivated")
        last = client.request("PATCH", f"members/{found[admin.email]['id']}", {"role": "viewer", "active": True})
        assert last.status_code == 409 and last.json()["error"]["code"] == "last_admin"
        assert membership(workspace, admin).role == "admin"
        made = client.post("invitations", {"email": "ben@example.org", "role": "viewer"})
        assert (
            made.status_code == 201
            and Client().get(made.json()["url"].removeprefix("http://testserver")).status_code == 200
        )
        ended = client.post(f"invitations/{made.json()['id']}/revoke")
        assert ended.json()["state"] == "revoked"
        assert (
            client.get("audit?action=person.invited").json()["results"][0]["target"]
            == f"invitation:{made.json()['id']}"
        )

    def test_a_repeat_does_not_tell_the_link_again(self, api: Any) -> None:
        client, sent = api("admin"), {"email": "ben@example.org", "role": "viewer"}
        first = client.post("invitations", sent, **{"Idempotency-Key": "one"})
        second = client.post("invitations", sent, **{"Idempotency-Key": "one"})
        assert first.json()["url"] and second.json() == first.json() | {"url": None}
        assert Invitation.objects.count() == 1
