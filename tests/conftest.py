"""What every test may ask for: personas of one workspace, an outsider from another, and clients that act for them.

owner / admin   an admin of `workspace`      labeller, viewer   its other roles
outsider        an admin of `other_workspace`, who must see and change nothing of `workspace`
page_client(user)       a Django test client with that person logged in
api(scopes…)            a client of /api/v1 with a fresh key of `workspace`; `api.of(other_workspace, scopes…)`
agent                   an agent of `workspace` with its version (options OPTIONS), model and reward spec
"""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from _pytest.logging import catching_logs
from django.core.management.commands import flush
from django.db import connection, transaction
from django.template import RequestContext
from django.test import Client, TransactionTestCase, client
from hypothesis import HealthCheck, settings

from project.embedded.testing import SESSION
from tests.api_client import ApiMaker
from tests.budget import Budget, Meter
from tests.engine_task import base_version, tiny_run
from tests.openai_server import OpenAIServer
from tests.template_database import ensure_template
from tools import factories
from tools.warm import stand_in

__all__ = ["base_version", "tiny_run"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", type=float, help="processor seconds that all tests together may take")


gc.disable()  # until all is imported and collected, none of which goes away: pytest_collection_finish


def pytest_configure(config: pytest.Config) -> None:
    """A shell ignores Ctrl-C for what it starts in the background, CI's too, and so would every test of an interrupt,
    for ever."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test asks a hub
    # pytest 9.1 forgets a folder's fixtures where files of other folders are named between its own (its issue 14971).
    config.args.sort()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if getattr(config.option, "numprocesses", None) and SESSION in os.environ and not hasattr(config, "workerinput"):
        # A checkout's first session migrates while its workers collect the tests.
        making = subprocess.Popen([sys.executable, "-m", "tests.template_database"], cwd=Path(__file__).parents[1])
        config.add_cleanup(making.wait)
    if (budget := config.getoption("budget")) is not None:
        config.pluginmanager.register(Meter())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Budget(budget))


# On a loaded machine an example may take long. Every run draws the same examples, so that more of them would find
# something once and never again; where fifty are few, a test says so.
settings.register_profile(
    "reckoner", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("reckoner")

# What a test asks for when it needs a model that was trained, or servers of its own.
SLOW_FIXTURES = {"tiny_run", "world", "layout", "served", "swift"}


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups after it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what needs a trained model, and cases after the first (`quick_cases`). Puts the slow ones first
    among those that empty the database, so that the workers end together. Tests that only undo a transaction stay
    before them, where pytest-django put them; those of a file stay with one worker, which makes its fixtures."""
    cases: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("quick_cases")) is not None:
            cases[test := item.nodeid.partition("[")[0]] += 1
            if cases[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if not _empties_the_database(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    items.sort(key=lambda item: 2 * _empties_the_database(item) - (_empties_the_database(item) and _is_slow(item)))


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: cycles are not looked for in it again (project/wsgi.py)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _empties_the_database(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("django_db")
    names = set(getattr(item, "fixturenames", ()))
    return bool({"transactional_db", "live_server"} & names) or (
        mark is not None and bool(mark.kwargs.get("transaction"))
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Artifacts, runs and secrets of the session lie in a temporary folder of settings_test: its maker clears it."""
    if hasattr(config, "workerinput"):  # an xdist worker uses the controller's folder
        return
    from project import settings_test

    folder = settings_test.SESSION_VAR
    if folder.name.startswith("reckoner-test-") and folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def warm_engine() -> None:
    """Engines and model servers start by fork, from a process that has imported torch: see tools/warm.py."""
    from tools import model_server
    from training.loops.rehearsal import estimate
    from training.runs import launcher

    folder = Path(os.environ["RECKONER_VAR"])
    launcher.ENGINE = stand_in(folder, "training.engine")
    launcher.TRY_DEVICE = stand_in(folder, "training.engine.machine.hardware")
    estimate.MEASURE = stand_in(folder, "training.engine.measure")
    model_server.SERVER = stand_in(folder, "training.engine.server")


@pytest.fixture(scope="session", autouse=True)
def short_pauses() -> None:
    """A tiny run takes a second, and a server that a test does without will not come."""
    from models_registry.backends import openai
    from training.local import runs as local_runs
    from training.runs import launcher

    launcher.POLL_SECONDS = local_runs.POLL_SECONDS = 0.05
    openai.PAUSE_SECONDS = 0.01


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> None:
    """After a test that commits, rows are deleted: TRUNCATE makes new files for every table, partition and index, most
    of them empty already. Without the triggers of keys and of append-only tables, as TRUNCATE is. What a migration
    leaves in the tables of permissions stays, so that it need not be made again after every test."""
    stays = {"django_content_type", "auth_permission"}

    def sql_flush(self: Any, style: Any, tables: list[str], **_: Any) -> list[str]:
        deletes = " ".join(f"DELETE FROM {self.quote_name(table)};" for table in tables if table not in stays)
        return [f"SET LOCAL session_replication_role = replica; {deletes}"] if tables else []

    if SESSION in os.environ:  # other servers may not let us
        type(connection.ops).sql_flush = sql_flush
        flush.emit_post_migrate_signal = lambda *_: None
        # A new session of PostgreSQL looks up every table again before it can empty it.
        TransactionTestCase._should_reload_connections = lambda _: False


@pytest.fixture(scope="session", autouse=True)
def first_contexts() -> None:
    """Of an answer's `context` the page's own is kept: Django copies that of every part and of every field's widget,
    a tenth of the time that a page takes."""
    keep = client.store_rendered_templates

    def keep_first(store: dict[str, Any], signal: Any, sender: Any, template: Any, context: Any, **names: Any) -> None:
        # A text that the view itself renders first, and a widget, know no request.
        if isinstance(context, RequestContext) and "context" not in store:
            keep(store, signal, sender, template, context, **names)

    client.store_rendered_templates = keep_first


@pytest.fixture(scope="session", autouse=True)
def logs_of_root() -> None:
    """pytest 9.1 hears the loggers that do not hand on what they log, too: six times a test it looks through all that
    there are, and finds 57 of torch's. Nobody reads those, and it took a twentieth of the tests' time."""

    def attach(self: catching_logs[Any]) -> Any:
        root = logging.getLogger()
        if self.level is not None:
            self.handler.setLevel(self.level)
            self.orig_level = root.level
            root.setLevel(min(self.orig_level, self.level))
        root.addHandler(self.handler)
        self.attached_loggers.append(root)
        return self.handler

    catching_logs.__enter__ = attach  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Each worker's database is a copy of one that is migrated already, where the servers are the tests' own."""
    if SESSION in os.environ:
        server_url = os.environ["DATABASE_URL"].rpartition("/")[0]
        connection.settings_dict["TEST"]["TEMPLATE"] = ensure_template(server_url)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Connections that somebody holds to the live server hold theirs to the database, which is to be dropped."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(autouse=True)
def seeded_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway draws the same actions in every run of a test, and not those of another test."""
    from decisions.gateway import decide

    monkeypatch.setattr(decide, "RNG", random.Random(request.node.nodeid))


@pytest.fixture(scope="module")
def module_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A transaction around a module: what its fixtures make is made once; a test's own `db` is a savepoint in it."""
    with django_db_blocker.unblock():
        around = transaction.atomic()
        around._from_testcase = True  # durable blocks run inside, as in Django's own TestCase
        with around:
            yield
            transaction.set_rollback(True)


@pytest.fixture
def workspace(db: None) -> Any:
    return factories.WorkspaceFactory(slug="acme", name="Acme")


@pytest.fixture
def other_workspace(db: None) -> Any:
    return factories.WorkspaceFactory(slug="elsewhere", name="Elsewhere")


def _member(workspace: Any, name: str, role: str) -> Any:
    user = factories.UserFactory(email=f"{name}@example.org", name=name.capitalize())
    factories.MembershipFactory(workspace=workspace, user=user, role=role)
    return user


@pytest.fixture
def owner(workspace: Any) -> Any:
    return _member(workspace, "owner", "admin")


@pytest.fixture
def admin(owner: Any) -> Any:
    return owner


@pytest.fixture
def labeller(workspace: Any) -> Any:
    return _member(workspace, "labeller", "labeller")


@pytest.fixture
def viewer(workspace: Any) -> Any:
    return _member(workspace, "viewer", "viewer")


@pytest.fixture
def outsider(other_workspace: Any) -> Any:
    return _member(other_workspace, "outsider", "admin")


@pytest.fixture
def page_client() -> Callable[..., Client]:
    """`page_client(user)`: logged in; without a user: anonymous."""

    def make(user: Any = None) -> Client:
        client = Client(raise_request_exception=False)
        if user is not None:
            client.force_login(user)
        return client

    return make


@pytest.fixture
def api(workspace: Any) -> ApiMaker:
    return ApiMaker(workspace)


@pytest.fixture
def by(workspace: Any) -> Any:
    """The actor of services: the system itself, in `workspace`."""
    from workspaces.access.actors import system

    return system(workspace)


@pytest.fixture
def agent(workspace: Any) -> Any:
    """FILER of `workspace`: version 1 with OPTIONS and the template `{{ text }}`, reward spec 1 (verdict × 1).

    Its rows alone, without the audit: every second test needs them (tests/decisions/agents has the service).
    """
    from decisions.models import AgentVersion, RewardSpec

    one = factories.AgentFactory(workspace=workspace, slug="filer", name="Filer", kind="FILER")
    AgentVersion.objects.create(
        workspace=workspace, agent=one, number=1, prompt_template="{{ text }}", options=list(factories.OPTIONS)
    )
    RewardSpec.objects.create(workspace=workspace, agent=one, number=1, **_verdict_alone())
    return one


@cache
def _verdict_alone() -> dict[str, Any]:
    from decisions.agents.services import VERDICT_ONLY
    from decisions.rewards.spec_content import preset_content
    from decisions.rewards.specs import columns_of

    return columns_of(preset_content(VERDICT_ONLY))


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Path:
    """An empty artifact store and runs folder of this test alone; the store's root."""
    settings.ARTIFACTS = str(tmp_path / "artifacts")
    settings.RUNS = tmp_path / "runs"
    settings.RUNS.mkdir()
    return Path(settings.ARTIFACTS)


@pytest.fixture
def at_once() -> Callable[..., list[Any]]:
    """`at_once(n, function)`: n threads with a connection each enter the function together; their answers."""

    def run(count: int, function: Callable[[], Any]) -> list[Any]:
        barrier = Barrier(count)

        def one() -> Any:
            try:
                connection.ensure_connection()
                barrier.wait(30)
                return function()
            finally:
                connection.close()

        with ThreadPoolExecutor(count) as pool:
            return [future.result(60) for future in [pool.submit(one) for _ in range(count)]]

    return run


@pytest.fixture
def serve(settings: Any) -> Iterator[Callable[[], OpenAIServer]]:
    """Starts OpenAI-compatible servers; backends may point at them."""
    from models_registry.backends.asking import forget_breakers
    from models_registry.backends.outbound import close_clients
    from models_registry.backends.parameters import forget_refusals

    made: list[OpenAIServer] = []

    def start() -> OpenAIServer:
        made.append(OpenAIServer())
        settings.BACKEND_URLS = [one.origin for one in made]
        return made[-1]

    yield start
    close_clients()
    forget_breakers()
    forget_refusals()
    for one in made:
        one.stop()
