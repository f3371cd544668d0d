"""Every endpoint of /api/v1 × every caller × someone else's object: who may do what, and refusals change nothing.

The table in `api_calls.py` is the whole answer. A URL name that it does not hold fails the first test: a new endpoint
says there which scope it needs and how it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection, transaction
from django.urls import URLPattern, URLResolver, get_resolver

from tests.api_client import ApiClient, ApiMaker
from tests.architecture.api_calls import ADMIN, CALLS, Call, World, build
from tools.factories import MembershipFactory, WorkspaceFactory
from workspaces.access.actors import ROLE_SCOPES
from workspaces.models import Scope

# The descriptions of the API, without data.
OPEN = {f"api-{what}{of}" for what in ("schema", "docs") for of in ("", "-gateway", "-notes-app")}


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


@contextmanager
def contained() -> Iterator[None]:
    """A savepoint: a statement that fails inside leaves the transaction usable for what follows."""
    with transaction.atomic():
        yield
        if broken():
            transaction.set_rollback(True)


def broken() -> bool:
    """Whether a statement failed, and the transaction takes no other."""
    return connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR


def send(client: Any, call: Call, world: World) -> Any:
    return client.request(call.method, world.fill(call.path), call.body(world) if call.body else None)


Callers = dict[str, tuple[ApiClient, frozenset[str]]]
"""By its name each key and each person, with the scopes that they have."""


@dataclass
class Scene:
    """Two workspaces with one of everything, made once for this module; what a call changes is undone after it."""

    world: World
    elsewhere: World
    callers: Callers
    """Of the first workspace: each key and each person."""
    closest: dict[str, Callers]
    """By a scope the callers that show most: a key with nothing else, and one with all but it."""
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
    closest = {}
    for scope in Scope.values:
        others = frozenset(every - {scope, ADMIN})
        alone = f"key {scope}"
        closest[scope] = {alone: callers[alone], f"key without {scope}": (api(*sorted(others)), others)}
    strangers = {"key": api.of(other, ADMIN), "session": person(other, "admin")}
    known = [*callers.values(), *(caller for callers_of in closest.values() for caller in callers_of.values())]
    for client in [*strangers.values(), *(client for client, _ in known)]:
        client.get("workspace")  # a first look writes when a key was used, which the next ones need not
    worlds = build(workspace, "filer"), build(other, "theirs")
    return Scene(*worlds, callers, closest, strangers, state_of_everything())


def told(answer: Any) -> tuple[int, str | None]:
    """The status, and the code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"] if answer.status_code in {401, 403} else None


def changed_tables(before: dict[str, int]) -> list[str]:
    now = state_of_everything()
    return sorted(table for table in before | now if before.get(table) != now.get(table))


Refusal = tuple[str, Callable[[], str | None]]
"""What is tried, in words, and a request that must be refused; it returns what is wrong with the answer."""


def refusal_faults(refusals: list[Refusal], state: dict[str, int]) -> list[str]:
    """What is wrong with the answers; and each request that changes a table, with the table. All requests share one
    look at the database; only where something changed is each sent again and looked at alone."""
    with undone():
        faults = [f"{what}: {fault}" for what, request in refusals if (fault := request())]
        changed = ["a statement failed"] if broken() else changed_tables(state)
    if not changed:
        return faults
    faults, harmless = [], True
    for what, request in refusals:
        with undone():
            with contained():
                fault = request()
            tables = changed_tables(state)
        harmless = harmless and not tables
        faults += [f"{what}: {fault}"] if fault else []
        faults += [f"{what}: was refused, and changed {', '.join(tables)}"] if tables else []
    return faults + ([f"all refused requests together: {', '.join(changed)}"] if harmless else [])


def test_every_url_of_the_api_stands_in_the_table() -> None:
    assert api_names() == set(CALLS) | OPEN


def test_strangers_reach_what_is_their_own(db: None, scene: Scene) -> None:
    for client in scene.strangers.values():
        assert client.get(scene.elsewhere.fill("agents/{slug}")).status_code == 200


@pytest.mark.parametrize("name", CALLS)
def test_an_endpoint_answers_whom_it_should_and_refusals_change_nothing(db: None, scene: Scene, name: str) -> None:
    """Its other methods, the closest callers with and without the scope, and the objects of another workspace."""
    refusals = lacking_methods(scene, CALLS[name])
    for call in CALLS[name]:
        refusals += [*who_may_not(scene, call, scene.closest[call.scope]), *strangers(scene, call)]
    faults = refusal_faults(refusals, scene.state)
    for call in CALLS[name]:
        faults += [*who_may(scene, call, scene.closest[call.scope]), *shows_the_other_workspace(scene, call)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_caller_is_answered_by_its_scopes(db: None, scene: Scene, name: str) -> None:
    """Keys of each scope, and people of each role; what may be read has a head."""
    refusals = [refusal for call in CALLS[name] for refusal in who_may_not(scene, call, scene.callers)]
    faults = refusal_faults(refusals, scene.state)
    for call in CALLS[name]:
        assert {"key admin", "admin"} <= {who for who, (_, scopes) in scene.callers.items() if call.scope in scopes}
        faults += [*who_may(scene, call, scene.callers), *has_a_head(scene, call)]
    assert not faults, "\n".join(faults)


def lacking_methods(scene: Scene, calls: list[Call]) -> list[Refusal]:
    """A method that the endpoint lacks is 405, and the others are named."""
    path, taken = scene.world.fill(calls[0].path), {call.method for call in calls}
    client, _ = scene.callers["key admin"]

    def refused(method: str) -> str | None:
        answer = client.request(method, path)
        code = answer.json()["error"]["code"] if answer.status_code >= 400 else None
        allowed = set(answer.headers.get("Allow", "").split(", ")) - {"HEAD"}
        right = (answer.status_code, code, allowed) == (405, "method_not_allowed", taken)
        return None if right else f"answers {answer.status_code} {code}, allows {sorted(allowed)}"

    methods = sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - taken)
    return [(f"{method} {path}, which it lacks", partial(refused, method)) for method in methods]


def who_may_not(scene: Scene, call: Call, callers: Callers) -> list[Refusal]:
    """Nobody is 401, and who lacks the scope 403."""

    def refused(client: ApiClient, expected: tuple[int, str]) -> str | None:
        answer = told(send(client, call, scene.world))
        return None if answer == expected else f"answers {answer}, not {expected}"

    what = f"{call.method} {call.path}"
    refusals: list[Refusal] = [(f"{what} by nobody", partial(refused, ApiClient(None), (401, "not_authenticated")))]
    for name, (client, scopes) in callers.items():
        if call.scope not in scopes:
            refusals.append((f"{what} by {name}", partial(refused, client, (403, "not_allowed"))))
    return refusals


def strangers(scene: Scene, call: Call) -> list[Refusal]:
    """Someone else's object is not there, for whoever may do everything in another workspace."""

    def refused(client: ApiClient) -> str | None:
        answer = send(client, call, scene.world)
        right = answer.status_code in call.foreign
        return None if right else f"answers {answer.status_code}, not {call.foreign}: {answer.content[:300]!r}"

    if not call.foreign:
        return []
    what = f"{call.method} {call.path} of another workspace"
    return [(f"{what} by its {name}", partial(refused, client)) for name, client in scene.strangers.items()]


def who_may(scene: Scene, call: Call, callers: Callers) -> Iterator[str]:
    """Everyone with the scope gets the same answer; a stranger does, too, for an object of their own: it is the
    workspace that is refused, not the call."""
    allowed = {name: client for name, (client, scopes) in callers.items() if call.scope in scopes}
    assert f"key {call.scope}" in allowed
    tries = [(name, client, scene.world) for name, client in allowed.items()]
    if call.foreign:
        tries.append(("a stranger's key", scene.strangers["key"], scene.elsewhere))
    for name, client, world in tries:
        with undone():
            answer = send(client, call, world)
        if answer.status_code != call.status:
            yield f"{call.method} {call.path} by {name}: answers {answer.status_code}, not {call.status}"


def has_a_head(scene: Scene, call: Call) -> Iterator[str]:
    if call.method == "GET":
        client, _ = scene.callers["admin"]
        answer = client.request("HEAD", scene.world.fill(call.path))
        if answer.status_code != 200:
            yield f"HEAD {call.path}: answers {answer.status_code}, not 200"


OBJECTS_OF_A_WORLD = (
    *("agent", "decision", "champion", "version", "dataset", "run", "experiment", "export", "key", "episode", "step"),
)


def shows_the_other_workspace(scene: Scene, call: Call) -> Iterator[str]:
    """Lists show one workspace only. The notes app's have another shape: tests/decisions/notes_app."""
    if call.method != "GET" or not call.path[0].isalpha() or "{" in call.path:
        return
    client, _ = scene.callers["key admin"]
    answer = send(client, call, scene.world)
    shown = list(answer.streaming_content) if call.lines else answer.json().get("results", [answer.json()])
    if not shown:
        yield f"GET {call.path}: shows nothing of its own workspace"
    text, theirs = str(shown), scene.elsewhere
    objects = theirs.extra | {name: getattr(theirs, name) for name in OBJECTS_OF_A_WORLD}
    for name, one in objects.items():
        if str(one.pk) in text:
            yield f"GET {call.path}: shows the {name} of another workspace"
