"""The loop's buttons in a real browser: rewards now, a dataset with its preview, and training in one press."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from jobs.models import Job
from jobs.runner import run_job
from tests.browser.accessibility import look_at
from tools import factories
from training.models import DatasetSnapshot, TrainingRun


def work(tab: Any, **job: Any) -> None:
    """What a worker does; the page, which asks every two seconds, asks now."""
    run_job(Job.objects.get(**job).id)
    tab.clock.fast_forward(2_000)


def page(name: str, workspace: Any, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug, *arguments])


def test_from_feedback_to_a_run_by_buttons_alone(
    tab: Any, admin: Any, scene: Any, workspace: Any, log_in: Any, store: Any
) -> None:
    waiting = scene.decisions[15]
    factories.FeedbackFactory(decision=waiting)
    tab.clock.install()
    log_in(tab, admin).goto(page("overview", workspace))
    tab.get_by_role("button", name="Calculate rewards now").click()
    expect(tab.get_by_text("Waiting for a worker")).to_be_visible()
    assert look_at(tab, "rewards-under-way") == []
    work(tab, kind="decisions.calculate_rewards")
    expect(tab.get_by_text("There is no new feedback.")).to_be_visible()
    assert look_at(tab, "rewards") == []

    tab.goto(page("datasets", workspace))
    assert look_at(tab, "datasets") == []
    tab.get_by_role("link", name="Create a dataset").click()
    expect(tab.get_by_role("heading", name="Preview")).to_be_visible()
    tab.get_by_label("Decisions", exact=True).select_option("new")
    tab.wait_for_url("**which=new**")
    expect(tab.get_by_text("have no verdict yet")).to_be_visible()
    tab.get_by_text("Filters and held-out rows").click()
    assert look_at(tab, "dataset-make") == []
    tab.get_by_label("Name").fill("by hand")
    tab.get_by_role("button", name="Create dataset").click()
    expect(tab.get_by_text("This page opens the dataset when it is ready.")).to_be_visible()
    assert look_at(tab, "dataset-making") == []
    work(tab, kind="training.freeze_dataset")
    expect(tab.get_by_role("heading", name="by hand", level=1)).to_be_visible()
    assert look_at(tab, "dataset") == []
    tab.get_by_role("link", name="Train on this dataset").click()
    tab.get_by_label("Epochs").fill("0")
    tab.get_by_label("Epochs").blur()
    expect(tab.locator("#run-needs")).to_have_text("cannot start yet")
    tab.get_by_label("Epochs").fill("2")
    tab.get_by_label("Epochs").blur()
    expect(tab.locator("#run-needs")).to_have_text("ready to start")  # the size of the scene's base is unknown
    tab.get_by_role("button", name="Start run").click()
    expect(tab.get_by_role("heading", name="posterior, ", level=1)).to_be_visible()
    dataset = DatasetSnapshot.objects.get(name="by hand")
    assert TrainingRun.objects.latest("id").dataset == dataset

    factories.RewardFactory(decision=scene.decisions[20])
    tab.goto(page("runs", workspace))
    tab.get_by_role("button", name="Train on new decisions").click()
    expect(tab.get_by_text("Several kinds of policy then learn from the dataset")).to_be_visible()
    work(tab, kind="training.freeze_dataset", state="queued")
    run = TrainingRun.objects.latest("id")
    tab.wait_for_url(f"**{page('best', workspace, Job.objects.get(kind='training.train_best').id)}")
    judged = run.dataset.items.filter(reward_version__isnull=False)
    assert [item.decision_id for item in judged] == [scene.decisions[20].id]
    assert run.dataset.items.count() == 2  # and as many as these that nobody judged
    factories.AgentFactory(workspace=workspace, name="Sorter")
    tab.goto(page("train-new", workspace))
    assert look_at(tab, "train-new") == []
    tab.get_by_role("link", name="Start the first run").click()
    expect(tab.get_by_role("heading", name="Before the first run")).to_be_visible()
    assert look_at(tab, "run-missing") == []
