"""Asking another version, of a decision and of an episode, in a real browser: at every width, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from models_registry.models import ModelVersion
from tests.browser.accessibility import look_at
from tools.factories import BackendFactory, DecisionFactory, DeploymentFactory, EpisodeFactory
from tools.scenes import TOPICS, Scene


def test_another_version_is_asked_and_both_sides_are_shown(
    tab: Any, owner: Any, scene: Scene, serve: Callable[[], Any], log_in: Any
) -> None:
    agent, decision = scene.agent, scene.decisions[4]
    server = serve()
    server.pick = next(topic for topic in TOPICS if topic != decision.action)
    version = ModelVersion.objects.get(id=scene.version.id)
    backend = BackendFactory(workspace=agent.workspace, url=server.url, name="stub", retries=0)
    DeploymentFactory(version=version, backend=backend, remote_name="stub")
    episode = EpisodeFactory(agent=agent, query="Which shelf?")
    for number in range(3):
        action = server.pick if number == 0 else decision.action
        DecisionFactory(agent=agent, episode=episode, step_number=number, options=TOPICS, action=action)
    slug = agent.workspace.slug
    log_in(tab, owner).goto(reverse("pages:decision", args=[slug, decision.id]))
    tab.get_by_role("link", name="Ask another version").click()
    tab.get_by_label("Version").select_option(label=str(version))
    tab.get_by_role("button", name="Ask").click()
    expect(tab.get_by_role("heading", name=f"{version} would do something else")).to_be_visible()
    found = look_at(tab, "playground")
    tab.goto(reverse("pages:episode", args=[slug, episode.id]))
    tab.get_by_role("link", name="Ask another version").click()
    tab.get_by_label("Version").select_option(label=str(version))
    tab.get_by_role("button", name="Ask").click()
    expect(tab.get_by_text("It stopped after decision 2.")).to_be_visible()
    found += look_at(tab, "episode-playground")
    assert found == []
