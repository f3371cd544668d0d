"""A workspace of 10,000 keys: what a key and the pages of keys cost does not depend on how many there are."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from workspaces.models import ApiKey, AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
MANY = 10_000


def add_keys(workspace: Any, count: int) -> None:
    keys = (
        ApiKey(workspace=workspace, name=f"key {n}", prefix=f"{n:012x}", secret_hmac=bytes(32), scopes=["route:read"])
        for n in range(count)
    )
    ApiKey.objects.bulk_create(keys, batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workspaces_apikey")


def test_statements_do_not_grow_and_read_few_rows(workspace: Any, owner: Any, api: Any, page_client: Any) -> None:
    admin, reader, page = api("admin"), api("export:read"), page_client(owner)
    victim = admin.post("keys", {"name": "ci", "scopes": ["export:read"]}).json()["id"]

    def measure() -> dict[str, int]:
        ApiKey.objects.filter(id=reader.key.id).update(last_used_at=timezone.now() - dt.timedelta(days=1))
        counts = {}
        for name, ask in {
            "used": lambda: reader.get("agents"),
            "used again": lambda: reader.get("agents"),
            "listed": lambda: admin.get("keys"),
            "page": lambda: page.get("/w/acme/connect"),
            "home": lambda: page.get("/w/acme/"),
            "changed": lambda: admin.request("PATCH", f"keys/{victim}", {"requests_a_minute": 5 + len(counts)}),
            "rotated": lambda: admin.post(f"keys/{victim}/rotate", {"overlap_seconds": 0}),
        }.items():
            with CaptureQueriesContext(
                connection,
            ) as asked:
                answer = ask()
            assert answer.status_code in (200, 201, 403), (name, answer.content[:300])
            counts[name] = len(asked)
        return counts

    measure()  # what is read once a process
    ApiKey.objects.filter(id=victim).update(requests_a_minute=None)
    before = measure()
    add_keys(workspace, MANY)
    ApiKey.objects.filter(id=victim).update(requests_a_minute=None)
    assert measure() == before
    listed = admin.get("keys").json()
    assert 0 < len(listed["results"]) <= 1000 and listed["next"]
    shown = page.get("/w/acme/connect").content.decode()
    assert 0 < shown.count("/revoke") <= 101
    with CaptureQueriesContext(connection) as asked:
        assert admin.post(f"keys/{victim}/revoke").status_code == 200
    assert len(asked) < 12 and AuditEntry.objects.filter(action="api_key.revoked").count() == 1


def test_indexes_find_a_key_and_the_newest_of_a_workspace(workspace: Any, other_workspace: Any) -> None:
    add_keys(other_workspace, MANY)
    ApiKey.objects.create(workspace=workspace, name="ci", prefix="ab", secret_hmac=bytes(32), scopes=["route:read"])
    of_many, of_few = (ApiKey.objects.for_workspace(one).order_by("-id")[:100] for one in (other_workspace, workspace))
    for rows in (ApiKey.objects.filter(prefix="ab"), of_many, of_few):
        plan = rows.explain(analyze=True)
        assert "Seq Scan" not in plan, plan
