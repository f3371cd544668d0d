"""A real Chromium against a live server. Without Chromium these tests skip, and say so.

tab         a page that fails its test on any console error, content-policy violation or failed request
log_in(tab, user)  by the cookie of a session; the tab stays where it is
scene       a workspace in the middle of the loop: judged decisions, runs, an experiment, a job under way
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test import Client

from tools.scenes import LAUNCH, Scene, find_chromium, make_busy_job, make_scene

PATIENCE = 60_000
"""Milliseconds that something may take on a machine with other work; what is there in time is not waited for."""


HEARD = {
    "Keyboard": ("press", "type"),
    "Locator": ("click", "press", "fill", "check", "uncheck", "select_option", "set_input_files"),
}
"""What a person does, which the page's scripts must hear."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


def _once_loaded(act: Callable[..., Any], page_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """The act, once the page's scripts have run: Playwright waits until an element is there, which is earlier, and on a
    busy machine much. A key that nobody hears is lost, a form goes out as if there were no script."""

    @wraps(act)
    def wait_and_act(self: Any, *arguments: Any, **options: Any) -> Any:
        page_of(self).wait_for_load_state()
        return act(self, *arguments, **options)

    return wait_and_act


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import Locator, expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    for name in HEARD["Locator"]:
        setattr(Locator, name, _once_loaded(getattr(Locator, name), lambda locator: locator.page))

    # Playwright's synchronous interface runs a loop in this thread, which Django takes for asynchronous code.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=LAUNCH)
        yield chromium
        chromium.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
    else:
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@pytest.fixture(scope="session", autouse=True)
def kept_files() -> Iterator[None]:
    """A tab asks for a script or a style once, as WhiteNoise has it; the live server's own handler does not say so."""
    serve = StaticFilesHandler.serve

    def serve_kept(self: Any, request: Any) -> Any:
        answer = serve(self, request)
        answer["Cache-Control"] = "max-age=600"
        return answer

    StaticFilesHandler.serve = serve_kept
    yield
    StaticFilesHandler.serve = serve


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained about; a test that provokes a complaint takes it out."""
    return []


def _is_complaint(message: Any) -> bool:
    """A page that is left while it asks for its own news gives the question up, and htmx says so by these two; where a
    request fails, the second is `htmx:sendError`."""
    return message.type in {"error", "warning"} and not message.text.startswith(("htmx:afterRequest", "htmx:sendAbort"))


@pytest.fixture
def open_tab(browser: Any, live_server: Any, complaints: list[str]) -> Iterator[Callable[..., Any]]:
    """`open_tab(width=1280, dark=False, zone="UTC")`: each in a context of its own."""
    contexts = []

    def watch(tab: Any) -> Any:
        for name in HEARD["Keyboard"]:
            act = _once_loaded(getattr(type(tab.keyboard), name), lambda _: tab)
            setattr(tab.keyboard, name, act.__get__(tab.keyboard))
        tab.on("console", lambda message: _is_complaint(message) and complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("response", lambda got: got.status >= 400 and complaints.append(f"{got.status} {got.url}"))
        return tab

    def make(*, width: int = 1280, dark: bool = False, zone: str = "UTC") -> Any:
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            timezone_id=zone,
            reduced_motion="reduce",  # motion costs sixty frames a second; a focus that fades in shows itself late
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        return watch(context.new_page())

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def tab(open_tab: Callable[..., Any]) -> Any:
    return open_tab()


@pytest.fixture
def log_in(live_server: Any) -> Callable[..., Any]:
    """The form itself is filled in by test_pages_in_browser.py."""

    def enter(tab: Any, user: Any) -> Any:
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        tab.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
        return tab

    return enter


@pytest.fixture
def scene(by: Any) -> Scene:
    return make_scene(by=by)


@pytest.fixture
def busy_job(workspace: Any) -> Any:
    return make_busy_job(workspace=workspace)
