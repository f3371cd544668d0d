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
from tests.task_world import make_acted_run, tasks_of
from tools.factories import (
    BackendFactory,
    DecisionFactory,
    EpisodeFactory,
    JudgeCalibrationFactory,
    ModelVersionFactory,
    RunMetricFactory,
)
from training.models import TrainingRun
from workspaces.access.actors import system


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


def test_a_judge_is_chosen_where_one_can_score(
    tab: Any, admin: Any, agent: Any, workspace: Any, settings: Any, log_in: Any
) -> None:
    settings.BACKEND_URLS = ["http://127.0.0.1:9"]
    writing, equations = (tasks_of(agent, environment) for environment in ("writing", "equations"))
    ModelVersionFactory(registered_model=agent.registered_model)
    BackendFactory(workspace=workspace, name="judges")
    JudgeCalibrationFactory(agent=agent, calibrated=True)
    JudgeCalibrationFactory(agent=agent, metric="polite")
    log_in(tab, admin).goto(f"{reverse('pages:run-start', args=[workspace.slug])}?dataset={writing.id}")
    judge, server = tab.get_by_label("Calibrated judge"), tab.get_by_label("Server", exact=True)
    expect(tab.get_by_text("polite: refused. 4 scored decisions have a label, 100 are needed.")).to_be_visible()
    expect(server).to_be_hidden()
    tab.get_by_label("Training data").select_option(str(equations.id))
    expect(judge).to_be_hidden()
    tab.get_by_label("Training data").select_option(str(writing.id))
    judge.select_option("helpful, α 0.81, 160 labels")
    expect(server).to_be_visible()
    expect(tab.locator("#run-needs")).to_have_text("cannot start yet")
    expect(tab.get_by_text("Choose the server that answers as the judge.")).to_be_visible()
    server.select_option("judges")
    tab.get_by_label("Model", exact=True).fill("judge-1")
    tab.get_by_label("Prompt", exact=True).fill("How creative is this? {work}")
    tab.get_by_label("Prompt", exact=True).blur()
    expect(tab.locator("#run-needs")).to_have_text("ready to start")
    assert look_at(tab, "run-form-with-judge") == []
    tab.get_by_role("button", name="Start run").click()
    expect(tab.get_by_role("heading", name="grpo, ", level=1)).to_be_visible()
    assert TrainingRun.objects.get().spec["judge"]["metric"] == "helpful"
