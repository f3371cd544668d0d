"""The page of the audit: filters, pages, CSV, and who may read it."""

from __future__ import annotations

import csv
import datetime as dt
import io
from typing import Any

import pytest
from django.urls import reverse

from tools.factories import DatasetSnapshotFactory, ModelVersionFactory
from workspaces.access.actors import system
from workspaces.access.services import record_audit
from workspaces.models import AuditEntry
from workspaces.storage.ids import uuid7_of


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:audit", args=[workspace.slug])


@pytest.fixture
def entries(workspace: Any, other_workspace: Any) -> None:
    """Three days of entries, one of another workspace, and one that a spreadsheet would run."""
    for day in (1, 2, 3):
        moment = dt.datetime(2026, 11, day, 23, 30, tzinfo=dt.UTC)
        AuditEntry.objects.create(
            id=uuid7_of(moment, str(day).encode()),
            workspace=workspace,
            actor="ann@example.org",
            action=f"thing.{day}",
            target="thing:1",
        )
    record_audit(by=system(other_workspace), action="elsewhere.done", target="secret:1")
    record_audit(by=system(workspace), action="key.named", target="=cmd()", details={"name": "x"})


def test_filters_find_what_they_name(admin: Any, page_client: Any, path: str, entries: None) -> None:
    client = page_client(admin)
    whole = client.get(path).content
    assert b"thing.1" in whole and b"elsewhere.done" not in whole
    shown = {
        "?actor=ann@example.org": {"thing.1", "thing.2", "thing.3"},
        "?action=thing.2": {"thing.2"},
        "?since=2026-11-02&until=2026-11-02": {"thing.2"},
        "?target=%3Dcmd()": {"key.named"},
        "?actor=nobody": set(),
    }
    for query, expected in shown.items():
        found = {entry.action for entry, _ in client.get(path + query).context["entries"]}
        assert found == expected, query


def test_a_filter_that_is_not_usable_is_named(admin: Any, page_client: Any, path: str, entries: None) -> None:
    for query in ("?since=yesterday", "?until=1950-01-01", f"?actor={'x' * 300}"):
        answer = page_client(admin).get(path + query)
        assert answer.status_code == 400 and b"The filter was not used" in answer.content
        assert page_client(admin).get(path.replace("audit", "audit.csv") + query).status_code == 400


def test_pages_follow_each_other_without_gap_or_repeat(admin: Any, page_client: Any, path: str, workspace: Any) -> None:
    for number in range(120):
        record_audit(by=system(workspace), action="counted", target=f"n:{number}")
    client, query, seen = page_client(admin), "?action=counted", []
    while query:
        context = client.get(path + query).context
        seen += [entry.target for entry, _ in context["entries"]]
        query = f"?{context['older']}" if context["older"] else ""
    assert seen == [f"n:{number}" for number in reversed(range(120))]


def test_the_csv_holds_what_the_filter_finds_and_no_formula(
    admin: Any, page_client: Any, path: str, entries: None
) -> None:
    answer = page_client(admin).get(path.replace("audit", "audit.csv"))
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["action"] for row in rows] == ["key.named", "thing.3", "thing.2", "thing.1"]
    assert rows[0]["target"] == "'=cmd()" and rows[0]["details"] == '{"name": "x"}'


def test_targets_have_names_beside_their_ids(
    admin: Any, agent: Any, page_client: Any, path: str, workspace: Any
) -> None:
    version, dataset = ModelVersionFactory(registered_model=agent.registered_model), DatasetSnapshotFactory(agent=agent)
    names = {
        f"model_version:{version.id}": "filer:1",
        f"dataset:{dataset.id}": dataset.name,
        f"user:{admin.id}": f"{admin.name}, {admin.email}" if admin.name else admin.email,
        f"agent:{agent.id}": agent.name,
        f"run:{dataset.id}": "",
        "model_version:none": "",
        "month:2026-11": "",
    }
    for target in names:
        record_audit(by=system(workspace), action="looked.at", target=target)
    client, query = page_client(admin), "?action=looked.at"
    page = client.get(path + query)
    assert {entry.target: name for entry, name in page.context["entries"]} == names
    answer = client.get(path.replace("audit", "audit.csv") + query)
    rows = csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode()))
    assert {row["target"]: row["target_name"] for row in rows} == names


def test_only_admins_read_it(
    admin: Any, labeller: Any, outsider: Any, page_client: Any, path: str, entries: None
) -> None:
    for address in (path, path.replace("audit", "audit.csv")):
        statuses = [page_client(person).get(address).status_code for person in (admin, labeller, outsider)]
        assert statuses == [200, 403, 404]
