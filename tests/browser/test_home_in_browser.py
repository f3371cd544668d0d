"""The home page and connecting an app, in a real browser: every state of the loop, wide, narrow and dark."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from decisions.models import Decision, Feedback
from jobs.models import Job
from tests.browser.accessibility import axe_findings, look_at
from tools import factories
from workspaces.models import ApiKey


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent."""


@pytest.fixture(autouse=True)
def model_server(settings: Any) -> Iterator[None]:
    """Something that answers where the model server would."""
    cache.clear()
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    settings.MODEL_SERVER_URL = f"http://127.0.0.1:{server.server_port}"
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_first_run(tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    log_in(tab, admin).goto("/")
    expect(tab.get_by_role("heading", name="Get started")).to_be_visible()
    assert look_at(tab, "home-first-run") == []
    tab.get_by_role("button", name="Start the demo").click()
    expect(tab.get_by_text("Demo loop", exact=True)).to_be_visible()
    expect(tab.locator("#loop")).to_have_attribute("hx-trigger", "every 3s")
    assert Job.objects.get().kind == "project.demo_loop"


def test_a_key_its_program_and_the_first_decision(
    tab: Any, admin: Any, workspace: Any, log_in: Any, tmp_path: Path
) -> None:
    tab.clock.install()
    log_in(tab, admin).goto("/")
    tab.get_by_role("link", name="Create a key").click()
    tab.get_by_label("Name of the app").fill("notes-app")
    tab.get_by_label("Name of the new agent").fill("sorter")
    tab.get_by_label("Options, one per line").fill("work\nhome")
    assert look_at(tab, "connect-form") == []
    sent: list[Any] = []
    tab.route(f"**{reverse('pages:key-make', args=[workspace.slug])}", lambda route: sent.append(route))
    pressed_again = (
        "async (button) => { button.click(); await new Promise((go) => setTimeout(go, 50)); button.click(); }"
    )
    tab.get_by_role("button", name="Create key").evaluate(pressed_again)
    for _ in range(100):
        if sent:
            break
        tab.wait_for_timeout(50)  # the browser tells of a request after the click, on a busy machine much later
    [first] = sent
    first.continue_()
    expect(tab.get_by_text("Waiting for your first decision")).to_be_visible()
    assert ApiKey.objects.count() == 1
    tab.get_by_role("tab", name="Python").click()
    assert axe_findings(tab, part="#arrival") == []
    program = tab.locator("#program-2").inner_text()
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    tab.clock.fast_forward(2_000)  # the page asks every two seconds
    expect(tab.locator("#arrival.arrived")).to_contain_text("sorter chose work")
    assert look_at(tab, "connect-arrived") == []
    tab.locator("#first-decision").click()
    expect(tab.locator("#decision-id")).to_have_text(str(Decision.objects.get().pk))
    expect(tab.locator("#label-panel")).to_contain_text("work")
    assert Feedback.objects.get().decision_id == Decision.objects.get().pk
    tab.goto(reverse("pages:connect", args=[workspace.slug]))
    tab.get_by_role("link", name="notes-app", exact=True).click()
    tab.get_by_label("Spend per day").fill("2.5")
    tab.get_by_label("sorter").check()
    assert look_at(tab, "key-limits") == []
    tab.get_by_role("button", name="Save limits").click()
    expect(tab.get_by_text("The limits of notes-app are saved")).to_be_visible()
    expect(tab.locator(".facts")).to_contain_text("0 of 2.50")
    tab.goto(reverse("pages:connect", args=[workspace.slug]))
    tab.get_by_role("button", name="Revoke notes-app").click()
    expect(tab.get_by_role("heading", name="Revoke notes-app?")).to_be_visible()
    tab.get_by_role("button", name="Revoke key").click()
    expect(tab.get_by_text("The key notes-app is revoked")).to_be_visible()
    expect(tab.get_by_role("button", name="Revoke notes-app")).to_have_count(0)
    assert ApiKey.objects.get().revoked_at is not None


def test_the_loop_while_it_moves(tab: Any, admin: Any, scene: Any, busy_job: Any, log_in: Any) -> None:
    log_in(tab, admin).goto("/")
    for key in ("record", "serve", "train", "experiment"):
        expect(tab.locator(f"#station-{key}")).to_have_class("station is-moving")
    assert look_at(tab, "home-moving") == []
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    assert tab.evaluate(moving) == 0  # tabs ask for no motion
    expect(tab.get_by_role("heading", name="Champion and challenger")).to_be_visible()
    tab.locator("#station-train").click(position={"x": 20, "y": 50})
    expect(tab.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    assert tab.url.endswith("/runs/")


REFRESH = """async () => {
  const part = document.querySelector("#loop");
  await htmx.ajax("GET", part.getAttribute("hx-get"), { source: part, target: part, swap: "outerHTML" });
  return document.activeElement.href ?? null;
}"""


def stick(workspace: Any, agent: Any) -> None:
    now = timezone.now()
    factories.JobFactory(
        workspace=workspace,
        kind="decisions.calculate_rewards",
        state="dead",
        finished_at=now - dt.timedelta(hours=2),
        error="OperationalError: could not extend file: No space left on device",
    )
    factories.TrainingRunFactory(
        agent=agent,
        state="failed",
        error="ValueError: row 17 names an option that is not one of the options",
        started_at=now - dt.timedelta(hours=1),
        finished_at=now - dt.timedelta(minutes=50),
    )
    factories.ExperimentFactory(
        registered_model=factories.RegisteredModelFactory(workspace=workspace),
        name="terse prompts against the base",
        state="rolled_back",
        ended_at=now - dt.timedelta(hours=3),
        verdict="E⁻ reached 20.7 after 812 units: the treatment is worse",
    )


def test_the_loop_with_something_stuck(
    tab: Any, labeller: Any, scene: Any, workspace: Any, log_in: Any, settings: Any
) -> None:
    stick(workspace, scene.agent)
    settings.MODEL_SERVER_URL = "http://127.0.0.1:9"
    log_in(tab, labeller).goto("/")
    for key in ("serve", "reward", "experiment"):
        expect(tab.locator(f"#station-{key}")).to_have_class("station is-stuck")
    expect(tab.get_by_text("No space left on device")).to_be_visible()
    assert look_at(tab, "home-stuck") == []
    links = tab.evaluate("() => [...document.querySelectorAll('#loop a')].map((one) => one.href)")
    assert len(links) > 15
    tab.locator("#loop a").first.focus()
    for number, link in enumerate(links):
        if number % 4 == 0:  # a refresh between two keys takes nobody's place
            assert tab.evaluate(REFRESH) == link
        tab.keyboard.press("Tab")
    tab.get_by_role("link", name="Label", exact=True).click()
    tab.wait_for_url("**/decisions/label")


def test_it_follows_what_moves_keeps_the_focus_and_rests(
    tab: Any, viewer: Any, agent: Any, busy_job: Any, log_in: Any
) -> None:
    old = timezone.now() - dt.timedelta(days=3)
    for number in range(6):
        moment = old + dt.timedelta(hours=8 * number)
        decision = factories.DecisionFactory(agent=agent, id=factories.uuid7_at(moment), observed_at=moment)
        factories.FeedbackFactory(decision=decision, observed_at=moment)
    tab.clock.install()
    log_in(tab, viewer).goto("/")
    expect(tab.get_by_role("progressbar")).to_have_attribute("value", "0.4200")
    tab.locator("#go-dataset").focus()
    Job.objects.filter(id=busy_job.id).update(progress=0.9, message="the experiment runs")
    tab.clock.fast_forward(3_000)
    expect(tab.get_by_text("the experiment runs")).to_be_visible()
    expect(tab.locator("#go-dataset")).to_be_focused()
    Job.objects.filter(id=busy_job.id).update(
        state="succeeded", progress=1.0, lease_until=None, finished_at=timezone.now()
    )
    tab.clock.fast_forward(3_000)
    expect(tab.get_by_role("progressbar")).to_have_count(0)
    expect(tab.locator("#loop[hx-trigger]")).to_have_count(0)
    assert look_at(tab, "home-rest") == []
