"""Every endpoint of /api/v1 × every caller × someone else's object: who may do what, and refusals change nothing.

The table in `api_calls.py` is the whole answer. A URL name that it does not hold fails the first test: a new endpoint
says there which scope it needs and how it is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection, transaction
from django.urls import URLPattern, URLResolver, get_resolver

from tests.api_client import ApiClient, ApiMaker
from tests.architecture.api_calls import ADMIN, CALLS, Call, World, build
from tools.factories import (
    MembershipFactory,
    WorkspaceFactory,
)
from workspaces.access.actors import ROLE_SCOPES
from workspaces.models import Scope

OPEN = {"api-schema", "api-docs"}  # the description of the API, without data
ALL = [pytest.param(call, id=f"{call.method} {call.path}") for calls in CALLS.values() for call in calls]
OBJECTS = [param for param in ALL if param.values[0].foreign]


def api_names(patterns: Any = None, prefix: str = "") -> set[str]:
    names = set()
    for pattern in patterns if patterns is not None else get_resolver().url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            names |= api_names(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and path.startswith(("api/", "v1/")):
            names.add(pattern.name or path)
    return names


@cache
def _fingerprints() -> str:
    selects = []
    for model in apps.get_models():
        table = model._meta.db_table
        if model._meta.app_label in {"sessions", "contenttypes", "auth"}:
            continue
        row = "to_jsonb(t) - 'last_used_at'" if table == "workspaces_apikey" else "t"
        selects.append(f"SELECT '{table}', sum(hashtextextended(({row})::text, 0)) FROM \"{table}\" t")
    return " UNION ALL ".join(selects)


def state_of_everything() -> dict[str, int]:
    """A fingerprint of every table of ours: what a refused call must leave as it was. A key's last use may change."""
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:  # Django's own prepares no statement
        cursor.execute(_fingerprints(), prepare=True)
        return dict(cursor.fetchall())


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def send(client: Any, call: Call, world: World) -> Any:
    return client.request(call.method, world.fill(call.path), call.body(world) if call.body else None)


@dataclass
class Scene:
    """Two workspaces with one of everything, made once for this module; what a call changes is undone after it."""

    world: World
    elsewhere: World
    callers: dict[str, tuple[ApiClient, frozenset[str]]]
    """Of the first workspace: by its name each key and each person, with the scopes that they have."""
    strangers: dict[str, ApiClient]
    """Admins of the second one."""
    state: dict[str, int]
    """Of everything, before any call: each test leaves it so, or what it changes is undone."""


@pytest.fixture(scope="module")
def scene(module_db: None) -> Scene:
    workspace, other = WorkspaceFactory(slug="acme"), WorkspaceFactory(slug="elsewhere")
    api = ApiMaker(workspace)

    def person(of: Any, role: str) -> ApiClient:
        return api.person(MembershipFactory(workspace=of, role=role).user)

    every = frozenset(Scope.values)
    callers = {f"key {scope}": (api(scope), every if scope == ADMIN else frozenset({scope})) for scope in Scope.values}
    for role in ("viewer", "labeller", "admin"):
        scopes = ROLE_SCOPES[role]
        callers[role] = (person(workspace, role), every if ADMIN in scopes else frozenset(scopes))
    strangers = {"key": api.of(other, ADMIN), "session": person(other, "admin")}
    worlds = build(workspace, "filer"), build(other, "theirs")
    return Scene(*worlds, callers, strangers, state_of_everything())


def told(answer: Any) -> tuple[int, str | None]:
    """The status, and the code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"] if answer.status_code in {401, 403} else None


def test_every_url_of_the_api_stands_in_the_table() -> None:
    assert api_names() == set(CALLS) | OPEN


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_a_method_that_an_endpoint_lacks_is_405_and_changes_nothing(db: None, scene: Scene, calls: list[Call]) -> None:
    path, taken = scene.world.fill(calls[0].path), {call.method for call in calls}
    client, _ = scene.callers["key admin"]
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - taken:
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed"), method
        assert set(answer.headers["Allow"].split(", ")) - {"HEAD"} == taken
    assert state_of_everything() == scene.state
    if "GET" in taken:
        assert client.request("HEAD", path).status_code == 200


@pytest.mark.parametrize("call", ALL)
def test_who_may_not_call_it_is_refused_and_changes_nothing(db: None, scene: Scene, call: Call) -> None:
    answers = {"anonymous": told(send(ApiClient(None), call, scene.world))}
    expected: dict[str, Any] = {"anonymous": (401, "not_authenticated")}
    for name, (client, scopes) in scene.callers.items():
        if call.scope not in scopes:
            answers[name] = told(send(client, call, scene.world))
            expected[name] = (403, "not_allowed")
    assert answers == expected
    assert state_of_everything() == scene.state


@pytest.mark.parametrize("call", ALL)
def test_who_may_call_it_does(db: None, scene: Scene, call: Call) -> None:
    answers = {}
    for name, (client, scopes) in scene.callers.items():
        if call.scope in scopes:
            with undone():
                answer = send(client, call, scene.world)
                answers[name] = answer.status_code
    assert {"key admin", "admin", f"key {call.scope}"} <= set(answers)
    assert set(answers.values()) == {call.status}, answers


@pytest.mark.parametrize("call", OBJECTS)
def test_someone_else_s_object_is_not_there(db: None, scene: Scene, call: Call) -> None:
    for client in scene.strangers.values():
        answer = send(client, call, scene.world)
        assert answer.status_code in call.foreign, answer.content
    assert state_of_everything() == scene.state
    # The same call on an object of one's own works: it is the workspace that was refused, not the call.
    for client in scene.strangers.values():
        with undone():
            assert send(client, call, scene.elsewhere).status_code == call.status


# The notes app's lists have another shape: tests/decisions/notes_app/test_notes_app_api.py
@pytest.mark.parametrize(
    "call",
    [p for p in ALL if p.values[0].method == "GET" and p.values[0].path[0].isalpha() and "{" not in p.values[0].path],
)
def test_lists_show_one_workspace_only(db: None, scene: Scene, call: Call) -> None:
    client, _ = scene.callers["key admin"]
    answer = send(client, call, scene.world)
    shown = list(answer.streaming_content) if call.lines else answer.json().get("results", [answer.json()])
    assert shown
    text = str(shown)
    for one in scene.elsewhere.extra.values():
        assert str(one.pk) not in text
    for name in (
        "agent",
        "decision",
        "champion",
        "version",
        "dataset",
        "run",
        "experiment",
        "export",
        "key",
        "episode",
        "step",
    ):
        assert str(getattr(scene.elsewhere, name).pk) not in text
