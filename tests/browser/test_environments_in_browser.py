"""Environments and episodes in a real browser, at every width, light and dark, and by the keyboard."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from tests.browser.accessibility import look_at
from tests.task_world import make_acted_run
from tools.factories import DecisionFactory, EpisodeFactory, ModelVersionFactory, RunMetricFactory
from workspaces.actors import system


def test_environments_and_episodes_fit_and_are_accessible(
    tab: Any, owner: Any, scene: Any, store: Any, settings: Any, log_in: Any
) -> None:
    version = ModelVersionFactory(registered_model=scene.agent.registered_model)
    over = {"state": "succeeded", "finished_at": timezone.now(), "produced_version": version}
    run = make_acted_run(scene.agent, settings.RUNS, count=30, **over)
    for step in range(1, 6):
        for metric in ("reward", "solved", "score", "steps_taken", "faults", "loss"):
            RunMetricFactory(run=run, step=step, name=metric, value=step / 8)
    told = []
    for number in range(6):
        moment = timezone.now() - dt.timedelta(days=number // 2)
        episode = EpisodeFactory(agent=scene.agent, started_at=moment)
        DecisionFactory(agent=scene.agent, episode=episode, step_number=1, model_version=version, policy_name=None)
        outcome = {"solved": number % 3 > 0, "score": 0.4 + number / 10, "finished": True}
        told += [
            FeedbackIn(metric=name, value=value, episode_id=episode.id, source="code")
            for name, value in outcome.items()
        ]
    assert record_feedback(by=system(scene.agent.workspace), items=list(enumerate(told))).errors == []
    slug = scene.agent.workspace.slug
    log_in(tab, owner)
    found: list[str] = []
    for name, path in (
        ("environments", reverse("pages:environments", args=[slug])),
        ("environment", reverse("pages:environment", args=[slug, "equations"])),
        ("environment-draw", reverse("pages:environment-draw", args=[slug, "equations"])),
        ("dataset-of-tasks", reverse("pages:dataset", args=[slug, run.dataset_id])),
        ("run-on-tasks", reverse("pages:run", args=[slug, run.id])),
        ("episodes", reverse("pages:run-episodes", args=[slug, run.id])),
        ("action-quality", reverse("pages:agent-action-quality", args=[slug, scene.agent.slug])),
        ("episode", reverse("pages:run-episode", args=[slug, run.id, 2])),
    ):
        tab.goto(path)
        if name == "run-on-tasks":
            expect(tab.get_by_label("Held-out episodes").first).to_be_visible()
        found += look_at(tab, name)
    assert found == []
    tab.keyboard.press("n")
    expect(tab.get_by_text("Task 3 of 30")).to_be_visible()
