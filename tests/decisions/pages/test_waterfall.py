"""One decision's reward as a waterfall on its page: every state of a component, the sums, and the clamp."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.rewards.calculate import calculate_rewards
from tools.factories import DecisionFactory, FeedbackFactory, RewardFactory, RewardSpecFactory, uuid7_at

DAY = dt.timedelta(days=1)


def component(name: str, weight: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "parameters": {}, **more}


def fall_of(decision: Any, client: Any) -> tuple[Any, str]:
    path = reverse("pages:decision", args=[decision.workspace.slug, decision.id])
    page = client.get(path)
    assert page.status_code == 200
    return page.context["fall"], re.sub(r"(<[^>]+>|\s)+", " ", page.content.decode())


def decided(agent: Any, days: float) -> Any:
    moment = timezone.now() - days * DAY
    return DecisionFactory(agent=agent, id=uuid7_at(moment), observed_at=moment)


def test_each_part_begins_where_the_one_before_ended(agent: Any, viewer: Any, page_client: Any) -> None:
    spec = RewardSpecFactory(
        agent=agent,
        components=[
            component("verdict", 2.0),
            component("filer.blocked", 0.5),
            component("filer.alignment", 0.4, window_days=5, missing=0.25),
            component("filer.time", 0.3, window_days=30, missing=0),
            component("filer.completion", 0.5, window_days=5, missing=None),
            component("trace.learned", 1.0),
            component("calibration", 0.0),
        ],
    )
    decision = decided(agent, 10)
    FeedbackFactory(decision=decision, metric="verdict", value="confirmed")
    FeedbackFactory(decision=decision, metric="blocked", value=True)
    calculate_rewards(spec)
    reward = decision.rewards.get()
    fall, text = fall_of(decision, page_client(viewer))
    states = {part.entry.name: part.state for part in fall.parts}
    assert states == {
        "verdict": "value",
        "filer.blocked": "value",
        "filer.alignment": "missing",
        "filer.time": "maturing",
        "filer.completion": "closed",
        "trace.learned": "unmeasured",
        "calibration": "value",
    }
    sums = [(part.begins, part.ends) for part in fall.parts]
    assert [round(end, 9) for _, end in sums] == [2.0, 1.5, 1.6, 1.6, 1.6, 1.6, 1.6]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(sums))
    assert fall.sum == pytest.approx(reward.raw) and fall.value == reward.value and not fall.clamped
    blocked = fall.parts[1]  # from 2 back to 1.5, on an axis from 0 to 2 with room at both ends
    assert (float(blocked.x[:-1]), float(blocked.width[:-1])) == pytest.approx((73.58, 23.58), abs=0.02)
    assert "missing counted as 0.25" in text and "It counts as 0 from" in text and "A job of its own" in text
    assert "The sum goes from +2.00 to +1.50." in text and "how well the item served a goal" not in text  # a tooltip
    assert "A sum of −2 is a reward of 0, and 2 is 1." in text


def test_a_failure_is_told_apart_and_gives_no_sum(agent: Any, viewer: Any, page_client: Any) -> None:
    spec = RewardSpecFactory(agent=agent, components=[component("filer.blocked"), component("gone.component")])
    decision = decided(agent, 1)
    why = {"error": "blocked <must> be true or false"}
    RewardFactory(decision=decision, spec=spec, value=None, raw=None, components={"filer.blocked": why})
    fall, text = fall_of(decision, page_client(viewer))
    assert [part.state for part in fall.parts] == ["failed", "waiting"] and fall.raw is None
    assert "blocked &lt;must&gt; be true or false" in text and "so the decision has no reward" in text


def test_the_clamp_and_the_credit_of_an_episode_are_shown(agent: Any, viewer: Any, page_client: Any) -> None:
    spec = RewardSpecFactory(agent=agent, components=[component("episode.outcome", 20.0), component("verdict", 1.0)])
    decision = decided(agent, 1)
    parts = {"episode.outcome": {"value": -1.0, "credit": -0.5}, "verdict": {"value": 1.0}}
    RewardFactory(decision=decision, spec=spec, value=0.0, raw=-5.0, components=parts)
    fall, text = fall_of(decision, page_client(viewer))
    assert [part.counts for part in fall.parts] == [-10.0, 1.0]
    assert (fall.sum, fall.raw, fall.clamped) == (-9.0, -5.0, True)
    assert "−0.5 credited of the episode’s −1" in text and "−9.00, clamped to ±5" in text


def test_without_a_reward_it_says_what_is_awaited(agent: Any, viewer: Any, page_client: Any) -> None:
    RewardSpecFactory(agent=agent, components=[component("verdict", window_days=2, missing=0.0)])
    fresh, old = decided(agent, 1), decided(agent, 3)
    client = page_client(viewer)
    assert [fall_of(one, client)[0].parts[0].state for one in (fresh, old)] == ["maturing", "due"]
    assert "The next calculation counts it as 0." in fall_of(old, client)[1]
