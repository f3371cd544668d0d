"""Keys: a new secret while the old one works, expiry, limits a minute, and the commands and calls for all of it."""

import datetime as dt
import io
import json
import uuid
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.api_client import ApiClient
from workspaces.access.actors import system
from workspaces.access.services import KeyLimits, find_key, revoke_api_key, rotate_api_key
from workspaces.errors import InvalidInput, KeyNotLive
from workspaces.http import throttling
from workspaces.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db
HOUR = dt.timedelta(hours=1)


def audit(action):
    return list(AuditEntry.objects.filter(action=action).order_by("id"))


class TestRotation:
    def test_both_secrets_work_until_the_moment_and_then_the_new_one(self, api, by):
        old = api("export:read")
        made = rotate_api_key(by=by, key=old.key, overlap=HOUR)
        new = ApiClient(made.token)
        assert made.token.partition(".")[0] == old.token.partition(".")[0]
        assert [client.get("decisions").status_code for client in (old, new)] == [200, 200]
        ApiKey.objects.update(previous_until=timezone.now())
        assert [client.get("decisions").status_code for client in (old, new)] == [401, 200]

    def test_without_an_overlap_the_old_secret_ends_at_once(self, api, by):
        old = api("export:read")
        made = rotate_api_key(by=by, key=old.key, overlap=dt.timedelta(0))
        assert find_key(old.token) is None
        assert find_key(made.token).id == old.key.id

    def test_a_second_rotation_ends_the_oldest(self, api, by):
        oldest = api("export:read")
        middle = rotate_api_key(by=by, key=oldest.key, overlap=HOUR).token
        newest = rotate_api_key(by=by, key=oldest.key, overlap=HOUR).token
        assert [find_key(token) is not None for token in (oldest.token, middle, newest)] == [False, True, True]

    def test_revoking_ends_both(self, api, by):
        old = api("export:read")
        new = rotate_api_key(by=by, key=old.key, overlap=HOUR).token
        revoke_api_key(by=by, key=old.key)
        assert [find_key(token) for token in (old.token, new)] == [None, None]

    @pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
    def test_a_key_that_is_over_gets_no_new_secret(self, api, by, end):
        key = api("export:read").key
        ApiKey.objects.update(**{end: timezone.now() - HOUR})
        before = ApiKey.objects.values().get(id=key.id)
        with pytest.raises(KeyNotLive):
            rotate_api_key(by=by, key=key, overlap=HOUR)
        assert ApiKey.objects.values().get(id=key.id) == before
        assert not audit("api_key.rotated")

    @pytest.mark.parametrize("overlap", [dt.timedelta(seconds=-1), dt.timedelta(days=31)])
    def test_an_overlap_out_of_range_changes_nothing(self, api, by, overlap):
        client = api("export:read")
        with pytest.raises(InvalidInput):
            rotate_api_key(by=by, key=client.key, overlap=overlap)
        assert find_key(client.token) is not None
        assert ApiKey.objects.get().previous_hmac is None

    def test_the_audit_says_who_and_until_when(self, api, by):
        key = rotate_api_key(by=by, key=api("export:read").key, overlap=HOUR).key
        entry = audit("api_key.rotated")[0]
        assert (entry.actor, entry.target) == ("system", f"api_key:{key.id}")
        assert entry.details == {"previous_until": key.previous_until.isoformat()}


class TestCalls:
    def test_a_key_is_made_listed_rotated_and_revoked(self, api):
        admin = api()
        soon = (timezone.now() + HOUR).isoformat()
        made = admin.post("keys", {"name": "ci", "scopes": ["export:read"], "expires_at": soon})
        assert made.status_code == 201
        key, client = made.json(), ApiClient(made.json()["token"])
        assert client.get("decisions").status_code == 200
        listed = {row["id"]: row for row in admin.get("keys").json()["results"]}
        assert listed[key["id"]]["state"] == "live"
        assert not any("token" in row or "hmac" in str(row) for row in listed.values())
        rotated = admin.post(f"keys/{key['id']}/rotate", {"overlap_seconds": 0})
        assert rotated.status_code == 200
        assert client.get("decisions").status_code == 401
        client = ApiClient(rotated.json()["token"])
        assert client.get("decisions").status_code == 200
        assert admin.post(f"keys/{key['id']}/revoke").json()["state"] == "revoked"
        assert client.get("decisions").status_code == 401
        assert admin.post(f"keys/{key['id']}/rotate").status_code == 409
        actions = ["api_key.created", "api_key.created", "api_key.rotated", "api_key.revoked"]
        assert [entry.action for entry in AuditEntry.objects.order_by("id")] == actions

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"scopes": ["root"]}, "scopes[0]"),
            ({"scopes": []}, "scopes"),
            ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
            ({"expires_at": "9999-01-01T00:00:00Z"}, "expires_at"),
            ({"expiry": 1}, "expiry"),
        ],
        ids=str,
    )
    def test_a_bad_field_is_named_and_no_key_is_made(self, api, fields, field):
        admin = api()
        answer = admin.post("keys", {"name": "ci", "scopes": ["export:read"]} | fields)
        assert answer.status_code == 400
        assert any(fault["field"].startswith(field.partition("[")[0]) for fault in answer.json()["error"]["fields"])
        assert ApiKey.objects.count() == 1

    @pytest.mark.parametrize("overlap", [-1, 1e9, "soon", None])
    def test_a_bad_overlap_is_named(self, api, overlap):
        admin = api()
        answer = admin.post(f"keys/{admin.key.id}/rotate", {"overlap_seconds": overlap})
        assert answer.json()["error"]["fields"][0]["field"] == "overlap_seconds"
        assert admin.get("decisions").status_code == 200


class TestLimits:
    def test_are_set_changed_and_lifted_and_the_audit_says_from_what_to_what(self, api):
        admin = api()
        limits = {"requests_a_minute": 600, "spend_a_day": "2.50", "agents": ["filer", "filer"]}
        made = admin.post("keys", {"name": "ci", "scopes": ["route:read"]} | limits).json()
        shown = {"requests_a_minute": 600, "spend_a_day": "2.500000", "agents": ["filer"]}
        assert {name: made[name] for name in limits} == shown
        path = f"keys/{made['id']}"
        changed = admin.request("PATCH", path, {"requests_a_minute": None, "spend_a_day": "2.5"})
        assert changed.json()["requests_a_minute"] is None
        listed = {row["id"]: row for row in admin.get("keys").json()["results"]}[made["id"]]
        assert {name: listed[name] for name in limits} == shown | {"requests_a_minute": None}
        details = {"requests_a_minute": 600, "spend_a_day": "2.5", "agents": ["filer"], "scopes": ["route:read"]}
        assert audit("api_key.created")[-1].details == details
        assert [entry.details for entry in audit("api_key.limits_changed")] == [
            {"requests_a_minute": {"from": 600, "to": None}}
        ]

    @pytest.mark.parametrize(
        "limits",
        [
            {"requests_a_minute": 0}, {"requests_a_minute": 10**7}, {"spend_a_day": "0"}, {"spend_a_day": "1e8"},
            {"agents": ["no slug"]}, {"budget": 1},
        ],
        ids=str,
    )  # fmt: skip
    def test_that_cannot_be_are_named_and_change_nothing(self, api, limits):
        admin = api()
        path, before = f"keys/{admin.key.id}", ApiKey.objects.values().get()
        for answer in (
            admin.request("PATCH", path, limits),
            admin.post("keys", {"name": "ci", "scopes": ["route:read"]} | limits),
        ):
            assert answer.status_code == 400
            assert answer.json()["error"]["fields"][0]["field"].partition(".")[0] in limits
        now = ApiKey.objects.values().get()
        assert {name: value for name, value in now.items() if name != "last_used_at"} == {
            name: value for name, value in before.items() if name != "last_used_at"
        }
        assert not audit("api_key.limits_changed")

    def test_of_a_key_that_is_over_stay(self, api):
        admin, over = api(), api("route:read")
        ApiKey.objects.filter(id=over.key.id).update(revoked_at=timezone.now())
        answer = admin.request("PATCH", f"keys/{over.key.id}", {"requests_a_minute": 5})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "key_not_live")
        assert ApiKey.objects.get(id=over.key.id).requests_a_minute is None


class TestCommands:
    def run(self, *arguments):
        out = io.StringIO()
        call_command("keys", *arguments, stdout=out, stderr=io.StringIO())
        return out.getvalue()

    def test_list_rotate_and_revoke(self, api):
        client = api("export:read")
        prefix = client.key.prefix
        assert prefix in self.run("list")
        assert json.loads(self.run("list", "--json"))["keys"][0]["state"] == "live"
        token = self.run("rotate", prefix, "--overlap-hours", "2").strip()
        assert find_key(token).id == client.key.id
        assert find_key(client.token) is not None
        said = json.loads(self.run("rotate", prefix, "--overlap-hours", "0", "--json"))
        assert find_key(said["key"]) is not None
        assert find_key(token) is None
        self.run("revoke", prefix)
        assert find_key(said["key"]) is None
        assert "revoked" in self.run("list")

    @pytest.mark.parametrize(
        "arguments", [("revoke", "nobody"), ("rotate",), ("list", "--workspace", "nowhere"), ("rotate", "-", "x")]
    )
    def test_what_is_unknown_ends_with_2_and_changes_nothing(self, api, arguments):
        client = api("export:read")
        with pytest.raises((SystemExit, CommandError)) as ended:
            self.run(*arguments)
        if isinstance(ended.value, SystemExit):
            assert ended.value.code == 2
        assert find_key(client.token) is not None

    def test_another_workspace_s_key_is_unknown(self, api, other_workspace):
        client = api.of(other_workspace, "export:read")
        with pytest.raises(SystemExit):
            self.run("revoke", client.key.prefix, "--workspace", "acme")
        assert find_key(client.token) is not None

    def test_create_key_takes_a_time(self, workspace):
        out = io.StringIO()
        call_command("create_key", "ci", "--scope", "export:read", "--expires-days", "2", stdout=out)
        left = find_key(out.getvalue().strip()).expires_at - timezone.now()
        assert dt.timedelta(days=1.9) < left < dt.timedelta(days=2.1)
        with pytest.raises(SystemExit):
            call_command("create_key", "x", "--scope", "export:read", "--expires-days", "0", stderr=io.StringIO())
        assert ApiKey.objects.count() == 1

    def test_create_key_takes_limits(self, workspace):
        make = ("create_key", "ci", "--scope", "route:read")
        limits = ("--requests-a-minute", "60", "--spend-a-day", "2.50", "--agent", "storer", "--agent", "filer")
        call_command(*make, *limits, stdout=io.StringIO())
        key = ApiKey.objects.get()
        assert (key.requests_a_minute, key.spend_a_day, key.agents) == (60, Decimal("2.5"), ["filer", "storer"])
        for flags, reason in (
            (("--requests-a-minute", "0", "--agent", "No slug"), "--requests-a-minute: 0 is out of range"),
            (("--spend-a-day", "0"), "--spend-a-day: 0 is out of range"),
            (("--spend-a-day", "free"), "is not an amount"),
        ):
            said = io.StringIO()
            with pytest.raises((SystemExit, CommandError)) as refused:
                call_command(*make, *flags, stderr=said)
            assert reason in said.getvalue() + str(refused.value)
        assert ApiKey.objects.count() == 1


@pytest.fixture
def throttle(settings, monkeypatch):
    """`throttle(limit)`: with no count of an earlier test in this process; in Valkey each key has its own."""
    # On a crowded machine Valkey may take longer to answer than a request would wait, and then all are let through.
    monkeypatch.setattr(throttling, "ANSWER_SECONDS", 20.0)
    throttling._client.cache_clear()

    def start(limit):
        settings.KEY_REQUESTS_A_MINUTE = limit
        throttling._shares.clear()
        throttling._away_until = 0.0

    yield start
    throttling._client.cache_clear()
    throttling._shares.clear()
    throttling._away_until = 0.0
    throttling._client.cache_clear()


@pytest.fixture
def one_minute(monkeypatch):
    """The clock of the windows stands still, 42 s before a minute's end; call it to move on."""
    now = [1_800_000_018.0]
    monkeypatch.setattr(throttling.time, "time", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


class TestThrottle:
    def test_a_key_over_its_limit_hears_when_to_go_on(self, api, throttle, one_minute):
        throttle(3)
        client, other = api("export:read"), api("export:read")
        assert [client.get("decisions").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        refused = client.get("decisions")
        assert refused.json()["error"]["code"] == "too_many_requests"
        assert refused.headers["Retry-After"] == "42"
        assert other.get("decisions").status_code == 200  # each key counts for itself
        one_minute(42)
        assert client.get("decisions").status_code == 200

    def test_a_key_s_own_limit_counts_where_it_is_the_lower_one(self, api, throttle, one_minute):
        throttle(3)
        few = api("export:read", limits=KeyLimits(requests_a_minute=2))
        many = api("export:read", limits=KeyLimits(requests_a_minute=100))
        assert [few.get("decisions").status_code for _ in range(3)] == [200, 200, 429]
        [fault] = few.get("decisions").json()["error"]["fields"]
        assert (fault["field"], fault["reason"]) == ("requests_a_minute", "more than 2 in this minute")
        assert [many.get("decisions").status_code for _ in range(4)] == [200, 200, 200, 429]

    def test_what_was_refused_was_not_done(self, api, agent, throttle, one_minute):
        from decisions.models import Decision
        from tests.decisions.conftest import body

        throttle(1)
        client = api()
        assert [client.post("decisions", body()).status_code for _ in range(2)] == [201, 429]
        assert Decision.objects.count() == 1

    def test_processes_share_one_count(self, api, throttle, one_minute):
        throttle(250)  # shares of 2
        client = api("export:read")
        taken = 0
        for _ in range(130):
            throttling._shares.clear()  # what another process would see: the count in Valkey, not our share
            taken += throttling._take(client.key.prefix, 250)
        assert taken == 125
        assert not throttling._take(client.key.prefix, 250)

    def test_a_limit_that_no_share_divides_is_kept(self, api, throttle, one_minute):
        throttle(999)
        prefix = uuid.uuid4().hex
        assert sum(throttling._take(prefix, 999) for _ in range(1500)) == 999

    def test_the_audit_says_it_once_an_hour(self, api, throttle, one_minute):
        throttle(1)
        client = api("export:read")
        for _ in range(4):
            client.get("decisions")
        entry = AuditEntry.objects.get(action="api_key.throttled")
        assert (entry.target, entry.details) == (f"api_key:{client.key.id}", {"requests_a_minute": 1})

    def test_while_valkey_is_away_nobody_is_turned_away(self, api, throttle, one_minute, settings):
        throttle(1)
        settings.REDIS_URL = "redis://127.0.0.1:9/0"
        client = api("export:read")
        assert [client.get("decisions").status_code for _ in range(3)] == [200, 200, 200]

    def test_people_are_not_counted(self, api, viewer, throttle, one_minute):
        throttle(1)
        client = api.person(viewer)
        assert [client.get("decisions").status_code for _ in range(3)] == [200, 200, 200]


def test_another_workspace_s_key_cannot_be_rotated(api, other_workspace):
    client = api("export:read")
    with pytest.raises(ApiKey.DoesNotExist):
        rotate_api_key(by=system(other_workspace), key=client.key, overlap=HOUR)
    assert find_key(client.token) is not None
