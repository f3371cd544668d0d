"""The README's screenshots: the real pages over a seeded database, in Chromium. `python -m tools.pictures` takes them.

Rows come from the browser tests' own scene, so that a picture shows what the tests look at. The database is one of the
tests' PostgreSQL, made for this and dropped afterwards; nobody's own instance is touched.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 800
QUALITY = 82


@dataclass(frozen=True, slots=True)
class Screen:
    """One picture: the file's stem, the page, and what is done on it before it is taken."""

    name: str
    address: Callable[[Any], str]
    keys: str = ""


def screens() -> tuple[Screen, ...]:
    """Every picture, in the README's order. Needs a configured Django."""
    from django.urls import reverse

    def page(name: str, row: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
        def address(scene: Any) -> str:
            slug = scene.agent.workspace.slug
            return reverse(f"pages:{name}", args=[slug] if row is None else [slug, row(scene).pk])

        return address

    return (
        Screen("home", page("overview")),
        Screen("decision", page("decision", lambda scene: scene.decisions[0]), keys="x"),
        Screen("run", page("run", lambda scene: scene.finished)),
        Screen("experiment", page("experiment", lambda scene: scene.experiment)),
        Screen("rehearsal", page("rehearsal", lambda scene: scene.rehearsal)),
    )


@contextmanager
def fresh_site() -> Iterator[str]:
    """Address of a web server over a fresh database. Sets Django up: import nothing of the project before."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings_test"
    import django

    django.setup()
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.test.testcases import LiveServerThread
    from django.test.utils import setup_databases, teardown_databases

    from project.settings_test import SESSION_VAR

    with ExitStack() as stack:
        stack.callback(shutil.rmtree, SESSION_VAR, ignore_errors=True)
        before = setup_databases(verbosity=0, interactive=False)
        stack.callback(teardown_databases, before, verbosity=0)
        stack.callback(_end_other_sessions)
        server = LiveServerThread("127.0.0.1", StaticFilesHandler)
        server.daemon = True
        server.start()
        stack.callback(server.terminate)
        server.is_ready.wait()
        if server.error:
            raise server.error
        yield f"http://{server.host}:{server.port}"


def _end_other_sessions() -> None:
    """A thread of the server may still hold its connection for a moment, and the database could not be dropped."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@contextmanager
def seeded_site() -> Iterator[tuple[str, Any, Any]]:
    """Address of a web server over a fresh database, an admin of its workspace, and the scene."""
    with fresh_site() as address:
        from django.conf import settings

        from tools import factories
        from tools.model_server import running_model_server
        from tools.scenes import make_busy_job, make_scene
        from workspaces.access.actors import system

        workspace: Any = factories.WorkspaceFactory(slug="notes", name="Notes")
        person: Any = factories.UserFactory(email="mira@example.org", name="Mira")
        factories.MembershipFactory(workspace=workspace, user=person, role="admin")
        scene = make_scene(by=system(workspace))
        make_busy_job(workspace=workspace)
        # The home page looks whether the model server answers.
        with running_model_server(Path(settings.ARTIFACTS), settings.MODEL_SERVER_TOKEN) as serving:
            settings.MODEL_SERVER_URL = serving
            yield address, person, scene


def take_screens(folder: Path = FOLDER) -> list[Path]:
    """Writes each screen as WebP into the folder. Raises RuntimeError where the machine has no Chromium."""
    from playwright.sync_api import sync_playwright

    with seeded_site() as (address, person, scene):
        from tools.factories import PASSWORD
        from tools.scenes import LAUNCH, find_chromium

        found = find_chromium()
        if found is None:
            raise RuntimeError("no Chromium on this machine: install the package 'chromium'")
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=found, args=LAUNCH)
            tab = chromium.new_context(
                base_url=address, viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
            ).new_page()
            tab.goto("/log-in")
            tab.get_by_label("Email").fill(person.email)
            tab.get_by_label("Password").fill(PASSWORD)
            tab.get_by_role("button", name="Log in").click()
            tab.wait_for_url(lambda url: "/log-in" not in url)
            written = [take_screen(tab, screen, scene, folder) for screen in screens()]
            chromium.close()
    return written


def take_screen(tab: Any, screen: Screen, scene: Any, folder: Path) -> Path:
    """Photographs one page with a tab that is logged in; the file. Raises RuntimeError when the page is not there."""
    answer = tab.goto(screen.address(scene))
    if answer.status != 200:
        raise RuntimeError(f"{screen.name}: {answer.status} {answer.url}")
    tab.wait_for_load_state("networkidle")
    if screen.keys:
        tab.keyboard.press(screen.keys)
    # Chromium's own WebP: Playwright's call knows PNG and JPEG only, and both are several times as large.
    session = tab.context.new_cdp_session(tab)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path = folder / f"{screen.name}.webp"
    path.write_bytes(base64.b64decode(shot["data"]))
    return path
