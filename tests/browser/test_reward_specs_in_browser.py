"""Rewards of an agent in a real browser: a change is tried on past decisions and published; the widths and the dark."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from decisions.models import RewardDraft
from decisions.rewards.specs import current_reward_spec
from jobs.runner import run_job
from tests.browser.accessibility import look_at
from tools.factories import DecisionFactory, FeedbackFactory, ModelVersionFactory


def test_a_change_is_tried_and_published_and_every_page_fits(
    tab: Any, admin: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    versions = ModelVersionFactory.create_batch(2, registered_model=agent.registered_model)
    for number in range(24):
        made = {"model_version": versions[number % 2], "policy_name": None, "unit": f"unit-{number}"}
        decision = DecisionFactory(agent=agent, confidence=0.5 + number / 50, **made)
        FeedbackFactory(decision=decision, value="corrected" if number % (3 + number % 2) == 0 else "confirmed")
    tab.clock.install()
    log_in(tab, admin).goto(reverse("pages:agent-rewards", args=[workspace.slug, agent.slug]))
    expect(tab.get_by_role("heading", name="Rewards", level=1)).to_be_visible()
    found = look_at(tab, "agent-rewards")
    tab.keyboard.press("n")
    tab.get_by_label("calibration", exact=True).check()
    tab.get_by_label("Weight of calibration").fill("0.8")
    tab.get_by_role("button", name="Show the changes", exact=True).click()
    expect(tab.get_by_role("heading", name="Changes from version 1")).to_be_focused()
    found += look_at(tab, "agent-rewards-edit")
    tab.get_by_role("button", name="Try on past decisions").click()
    expect(tab.get_by_text("Waiting for a worker")).to_be_visible()
    run_job(RewardDraft.objects.get().job_id)
    tab.clock.fast_forward(2_000)
    expect(tab.get_by_role("heading", name="Rewards before and after")).to_be_visible()
    found += look_at(tab, "reward-draft")
    tab.get_by_role("button", name="Publish as version 2").click()
    expect(tab.get_by_text("Filer has reward spec 2 now.")).to_be_visible()
    assert [one["name"] for one in current_reward_spec(agent).components] == ["verdict", "calibration"]
    tab.get_by_role("link", name="Version 2").click()
    expect(tab.get_by_role("heading", name="Changes from version 1")).to_be_visible()
    found += look_at(tab, "agent-reward-spec")
    assert found == []
