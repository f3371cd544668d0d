"""Rewards in a real browser: how one adds up, and an agent's page of rewards, at every width and in the dark."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from decisions.rewards.calculate import calculate_rewards
from tests.browser.accessibility import look_at
from tools.factories import DecisionFactory, FeedbackFactory, RewardFactory, RewardSpecFactory, uuid7_at

COMPONENTS = [
    {"name": "verdict", "weight": 1.0, "parameters": {}},
    {"name": "calibration", "weight": 0.1, "parameters": {}},
    {"name": "filer.completion", "weight": 0.5, "parameters": {}, "window_days": 30, "missing": 0},
    {"name": "filer.blocked", "weight": 0.3, "parameters": {}},
    {"name": "filer.time", "weight": 0.3, "parameters": {}, "window_days": 2, "missing": -0.5},
    {"name": "filer.alignment", "weight": 0.4, "parameters": {}, "window_days": 90},
    {"name": "trace.learned", "weight": 1.0, "parameters": {}},
]


def test_a_rewards_parts_can_be_read_at_every_width(
    tab: Any, viewer: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    spec = RewardSpecFactory(agent=agent, components=COMPONENTS)
    moment = timezone.now() - dt.timedelta(days=4)
    decision = DecisionFactory(agent=agent, id=uuid7_at(moment), observed_at=moment, confidence=0.8)
    FeedbackFactory(decision=decision, metric="verdict", value="confirmed")
    FeedbackFactory(decision=decision, metric="blocked", value=True)
    calculate_rewards(spec)
    log_in(tab, viewer).goto(reverse("pages:decision", args=[workspace.slug, decision.id]))
    expect(tab.get_by_role("list", name="How the reward adds up").get_by_role("listitem")).to_have_count(8)
    assert look_at(tab, "decision-reward") == []


def test_an_agents_rewards_can_be_read_at_every_width(
    tab: Any, viewer: Any, agent: Any, workspace: Any, log_in: Any
) -> None:
    spec = RewardSpecFactory(agent=agent, components=COMPONENTS)
    rng, now = random.Random(5), timezone.now()
    for _ in range(160):
        age = dt.timedelta(days=rng.uniform(0, 20) if rng.random() < 0.9 else 26)
        decision = DecisionFactory(agent=agent, id=uuid7_at(now - age), observed_at=now - age, confidence=0.7)
        lag = dt.timedelta(hours=rng.lognormvariate(2.5, 1.5))
        if lag < age:
            verdict = "confirmed" if rng.random() < 0.75 else "corrected"
            FeedbackFactory(decision=decision, value=verdict, observed_at=now - age + lag)
    calculate_rewards(spec)
    reason = {"error": "blocked must be true or false, not 'perhaps'"}
    RewardFactory(decision=decision, spec=spec, version=9, value=None, raw=None, components={"filer.blocked": reason})
    log_in(tab, viewer).goto(reverse("pages:agent", args=[workspace.slug, agent.slug]))
    tab.get_by_role("link", name="Rewards over time").click()
    expect(tab.get_by_role("heading", name="Reward over time")).to_be_visible()
    assert look_at(tab, "reward-history") == []
    tab.get_by_role("link", name="90 days").click()
    expect(tab.get_by_role("link", name="90 days")).to_have_attribute("aria-current", "true")
    tab.get_by_role("link", name=str(decision.id)[-6:]).click()
    expect(tab.get_by_text("not 'perhaps'")).to_be_visible()
