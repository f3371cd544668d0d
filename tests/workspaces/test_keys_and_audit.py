"""API keys: what opens, what does not, and what the database itself refuses."""

import datetime as dt

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from tests.api_client import ApiClient
from tools.factories import AuditEntryFactory, MembershipFactory, UserFactory, WorkspaceFactory
from workspaces.access.actors import system
from workspaces.access.services import create_api_key, create_workspace, find_key, revoke_api_key
from workspaces.errors import InvalidInput
from workspaces.models import ApiKey, AuditEntry, Membership, User

pytestmark = pytest.mark.django_db


def test_a_key_opens_what_its_scopes_name_and_nothing_else(api):
    reader = api("export:read")
    assert reader.get("decisions").status_code == 200
    refused = reader.post("agents", {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    assert "admin" in refused.json()["error"]["message"]
    assert api("admin").get("decisions").status_code == 200  # admin holds every scope


def test_the_secret_is_stored_nowhere(by):
    made = create_api_key(by=by, name="ci", scopes=["export:read"])
    prefix, _, secret = made.token.partition(".")
    row = ApiKey.objects.values().get()
    assert row["prefix"] == prefix
    assert len(secret) >= 43  # 256 bits in base64
    assert not any(secret in str(value) for value in row.values())


@pytest.mark.parametrize("change", ["wrong secret", "wrong prefix", "no secret", "no dot", "other's secret"])
def test_a_wrong_token_is_nobody(api, by, change):
    prefix, _, secret = api().token.partition(".")
    token = {
        "wrong secret": f"{prefix}.{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}",
        "wrong prefix": f"000000000000.{secret}",
        "no secret": f"{prefix}.",
        "no dot": prefix + secret,
        "other's secret": f"{prefix}.{create_api_key(by=by, name='b', scopes=['admin']).token.partition('.')[2]}",
    }[change]
    assert find_key(token) is None
    answer = ApiClient(token).get("decisions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_authenticated")


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Bearer ", "prefix.secret", "Bearer a b", "Bearer ü.ü"])
def test_a_header_that_is_no_bearer_token_is_nobody(api, header):
    assert api.anonymous().get("decisions", Authorization=header).status_code == 401


def test_an_expired_key_is_nobody(api):
    now = timezone.now()
    assert api("export:read", expires_at=now - dt.timedelta(seconds=1)).get("decisions").status_code == 401
    assert api("export:read", expires_at=now + dt.timedelta(hours=1)).get("decisions").status_code == 200


def test_a_revoked_key_is_nobody_at_once(api, by):
    client = api("export:read")
    assert client.get("decisions").status_code == 200
    revoke_api_key(by=by, key=client.key)
    assert client.get("decisions").status_code == 401
    revoke_api_key(by=by, key=client.key)  # again: nothing happens
    assert list(AuditEntry.objects.filter(action="api_key.revoked").values_list("target", flat=True)) == [
        f"api_key:{client.key.id}"
    ]


def test_another_workspace_cannot_revoke_a_key(api, other_workspace):
    client = api("export:read")
    revoke_api_key(by=system(other_workspace), key=client.key)
    assert client.get("decisions").status_code == 200
    assert not AuditEntry.objects.filter(action="api_key.revoked").exists()


def test_use_is_noted_once_a_minute(api, django_assert_num_queries):
    client = api("export:read")
    client.get("decisions")
    first = ApiKey.objects.get(id=client.key.id).last_used_at
    find_key(client.token)  # the row has changed: this reads it anew
    with django_assert_num_queries(1):
        find_key(client.token)
    assert ApiKey.objects.get(id=client.key.id).last_used_at == first
    ApiKey.objects.update(last_used_at=timezone.now() - dt.timedelta(minutes=2))
    find_key(client.token)
    assert ApiKey.objects.get(id=client.key.id).last_used_at >= first


@pytest.mark.parametrize("scopes", [[], ["root"], ["admin", "root"]])
def test_a_key_without_a_known_scope_is_not_made(by, scopes):
    with pytest.raises(InvalidInput) as refused:
        create_api_key(by=by, name="x", scopes=scopes)
    assert refused.value.faults[0].field == "scopes"
    assert not ApiKey.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("scopes", [[], ["root"]])
def test_the_database_refuses_unknown_scopes(api, scopes):
    key = api("export:read").key
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.filter(id=key.id).update(scopes=scopes)


class TestSessions:
    def test_a_person_acts_through_the_role(self, api, viewer, labeller, admin):
        assert api.person(viewer).get("decisions").status_code == 200
        for person in (viewer, labeller):
            assert api.person(person).post("agents", {}).status_code == 403
        assert api.person(admin).post("agents", {}).status_code == 400  # may, but said nothing

    def test_a_member_of_two_workspaces_names_one(self, api, viewer, other_workspace):
        MembershipFactory(workspace=other_workspace, user=viewer, role="viewer")
        client = api.person(viewer)
        assert client.get("decisions").status_code == 401
        assert client.get("decisions", **{"X-Workspace": "acme"}).status_code == 200
        assert client.get("decisions", **{"X-Workspace": "third"}).status_code == 401

    def test_a_session_without_the_csrf_token_changes_nothing(self, admin):
        client = Client(enforce_csrf_checks=True)
        client.force_login(admin)
        answer = client.post("/api/v1/agents", {}, content_type="application/json")
        assert answer.status_code == 403
        assert "CSRF" in answer.json()["error"]["message"]

    def test_a_one_time_password_opens_no_api(self, api, viewer):
        viewer.must_change_password = True
        viewer.save()
        assert api.person(viewer).get("decisions").status_code == 401
        viewer.must_change_password = False
        viewer.save()
        assert api.person(viewer).get("decisions").status_code == 200

    def test_a_person_without_a_workspace_is_nobody(self, api):
        assert api.person(UserFactory()).get("decisions").status_code == 401


class TestAudit:
    @pytest.mark.parametrize(
        "change", ["UPDATE workspaces_auditentry SET actor = 'x'", "DELETE FROM workspaces_auditentry"]
    )
    def test_the_database_refuses_to_change_the_past(self, change):
        AuditEntryFactory()
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)
        assert AuditEntry.objects.get().actor == "system"

    def test_a_workspace_with_a_past_cannot_be_deleted(self, workspace):
        AuditEntryFactory(workspace=workspace)
        with pytest.raises(DatabaseError), transaction.atomic():
            workspace.delete()
            transaction.get_connection().check_constraints()
        assert AuditEntry.objects.exists()

    def test_making_a_key_says_who_and_what(self, by):
        key = create_api_key(by=by, name="ci", scopes=["route:read", "export:read", "route:read"]).key
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.action, entry.target) == ("system", "api_key.created", f"api_key:{key.id}")
        assert entry.details == {"scopes": ["export:read", "route:read"]}


class TestPeople:
    def test_an_address_is_one_person_whatever_its_case(self):
        UserFactory(email="Ann@Example.org")
        assert User.objects.get_by_natural_key("ANN@example.ORG").email == "ann@example.org"
        with pytest.raises(IntegrityError), transaction.atomic():
            User.objects.bulk_create([User(email="ANN@example.org")])

    def test_a_person_without_a_password_cannot_log_in(self):
        assert not User.objects.create_user("bob@example.org").has_usable_password()

    def test_the_database_refuses_an_unknown_role_and_a_second_membership(self, viewer, workspace):
        with pytest.raises(IntegrityError), transaction.atomic():
            Membership.objects.update(role="emperor")
        with pytest.raises(IntegrityError), transaction.atomic():
            MembershipFactory(workspace=workspace, user=viewer)

    def test_who_founds_a_workspace_is_its_admin(self):
        user = UserFactory()
        workspace = create_workspace(slug="new", name="New", owner=user)
        assert workspace.memberships.get().role == "admin"
        assert WorkspaceFactory._meta.model.objects.count() == 1


def test_a_change_of_a_key_or_its_workspace_counts_at_once(api, workspace):
    client = api("export:read")
    assert client.get("decisions").status_code == 200
    ApiKey.objects.filter(id=client.key.id).update(scopes=["feedback:write"])
    assert client.get("decisions").status_code == 403
    type(workspace).objects.filter(id=workspace.id).update(name="Renamed")
    assert find_key(client.token).workspace.name == "Renamed"


def test_a_key_leaves_the_session_alone(api):
    assert "Cookie" not in api("export:read").get("decisions").headers.get("Vary", "")


def test_json_may_load_and_frame_nothing(api):
    for answer in (api("export:read").get("decisions"), api.anonymous().get("decisions")):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
