"""A key with limits cannot widen them, its own or through others, and a refusal changes nothing."""

from decimal import Decimal

import pytest

from decisions.models import Shadow
from models_registry.models import Backend, Deployment, ModelVersion
from models_registry.versions.services import NewVersion, register_version
from tools.factories import BackendFactory, DeploymentFactory, MembershipFactory
from workspaces.access.services import KeyLimits
from workspaces.models import ApiKey, AuditEntry, Invitation, Membership

pytestmark = pytest.mark.django_db
BUDGET = KeyLimits(spend_a_day=Decimal(1))
RATE = KeyLimits(requests_a_minute=60)
AGENTS = KeyLimits(agents=["filer", "storer"])
KEY = {"name": "other", "scopes": ["route:read"]}


def rows():
    """Of all that these refusals are about."""
    keys = [
        {name: value for name, value in row.items() if name != "last_used_at"}
        for row in ApiKey.objects.order_by("id").values()
    ]
    tables = (AuditEntry, Invitation, Membership, Backend, Deployment, ModelVersion)
    return keys, [list(table.objects.order_by("id").values()) for table in tables]


@pytest.mark.parametrize(
    ("own", "changes"),
    [
        (BUDGET, {"spend_a_day": None}), (BUDGET, {"spend_a_day": "2"}), (BUDGET, {"spend_a_day": "0.5"}),
        (RATE, {"requests_a_minute": None}), (AGENTS, {"agents": []}), (AGENTS, {"agents": ["filer"]}),
        (KeyLimits(), {"spend_a_day": "5"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_key_does_not_change_its_own_limits(api, own, changes):
    key = api("admin", limits=own)
    before = rows()
    refused = key.request("PATCH", f"keys/{key.key.id}", changes)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    assert [fault["field"] for fault in refused.json()["error"]["fields"]] == list(changes)
    assert rows() == before


@pytest.mark.parametrize(
    ("own", "limits", "status"),
    [
        (BUDGET, {}, 403), (BUDGET, {"spend_a_day": "0.5"}, 403),  # a second budget would be one more
        (RATE, {}, 403), (RATE, {"requests_a_minute": 61}, 403), (RATE, {"requests_a_minute": 60}, 201),
        (AGENTS, {}, 403), (AGENTS, {"agents": ["filer", "spy"]}, 403), (AGENTS, {"agents": ["filer"]}, 201),
    ],
    ids=str,
)  # fmt: skip
def test_a_key_makes_no_wider_key(api, own, limits, status):
    key = api("admin", limits=own)
    before = rows()
    answer = key.post("keys", KEY | limits)
    assert answer.status_code == status
    assert (rows() == before) == (status == 403)


@pytest.mark.parametrize(
    ("own", "others", "changes", "status"),
    [
        (BUDGET, BUDGET, {"spend_a_day": None}, 403), (BUDGET, BUDGET, {"spend_a_day": "1.5"}, 403),
        (BUDGET, BUDGET, {"spend_a_day": "0.5"}, 200), (BUDGET, KeyLimits(), {"spend_a_day": "9"}, 200),
        (RATE, RATE, {"requests_a_minute": None}, 403), (RATE, KeyLimits(), {"requests_a_minute": 9}, 200),
        (AGENTS, AGENTS, {"agents": []}, 403), (AGENTS, AGENTS, {"requests_a_minute": 9}, 200),
    ],
    ids=str,
)  # fmt: skip
def test_a_key_widens_no_other(api, own, others, changes, status):
    key, other = api("admin", limits=own), api("route:read", limits=others)
    before = rows()
    assert key.request("PATCH", f"keys/{other.key.id}", changes).status_code == status
    assert (rows() == before) == (status == 403)


@pytest.mark.parametrize(("own", "others"), [(BUDGET, BUDGET), (RATE, KeyLimits()), (AGENTS, KeyLimits())], ids=str)
def test_a_key_gets_no_wider_key_s_secret(api, own, others):
    key, other = api("admin", limits=own), api("route:read", limits=others)
    before = rows()
    assert key.post(f"keys/{other.key.id}/rotate", {}).status_code == 403
    assert rows() == before
    assert key.post(f"keys/{key.key.id}/rotate", {}).status_code == 200


@pytest.mark.parametrize("own", [BUDGET, RATE, AGENTS], ids=str)
def test_a_key_with_limits_makes_nobody_an_admin(api, own, workspace):
    key = api("admin", limits=own)
    viewer = MembershipFactory(workspace=workspace, role="viewer")
    before = rows()
    for answer in (
        key.post("invitations", {"email": "me@example.org", "role": "admin"}),
        key.request("PATCH", f"members/{viewer.id}", {"role": "admin"}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
    assert rows() == before
    assert key.post("invitations", {"email": "me@example.org", "role": "viewer"}).status_code == 201


def test_a_key_with_a_budget_makes_no_call_cheaper(api, agent, by, workspace, settings):
    settings.BACKEND_URLS = ["http://127.0.0.1:9"]
    key = api("admin", limits=BUDGET)
    new = NewVersion(remote_name="small", method="remote")
    version = register_version(by=by, model=agent.registered_model, new=new)
    backend = BackendFactory(workspace=workspace, url="http://127.0.0.1:9/v1", price_in=1, price_out=10)
    DeploymentFactory(version=version, backend=backend)
    before, path = rows(), f"backends/{backend.id}"
    for answer in (
        key.request("PATCH", path, {"price_out": "0"}),
        key.request("PATCH", path, {"url": "https://dearer.example.org/v1"}),
        key.post("backends", {"name": "free", "url": backend.url}),
        key.post("remote-versions", {"model": "filer", "remote_name": "large", "backend": str(backend.id)}),
        key.post(f"versions/{version.id}/deployments", {"backend": str(backend.id), "remote_name": "large"}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed"), answer.json()
    assert rows() == before
    changed = key.request("PATCH", path, {"enabled": False})
    assert changed.status_code == 200, changed.json()


def test_a_key_with_a_budget_starts_no_shadow(api, agent, by):
    key = api("admin", limits=BUDGET)
    for name in ("first", "second"):
        register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name=name, method="remote"))
    given = {"agent": "filer", "version": "filer:2", "reason": "to see"}
    refused = key.post("shadows", given)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    assert not Shadow.objects.exists()
    assert api().post("shadows", given).status_code == 201
