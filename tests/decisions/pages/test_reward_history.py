"""An agent's rewards over time: the page and the API say the same, over a bounded part of any ledger."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import MeasurementDue, RewardDue
from decisions.queries import reward_sample
from decisions.rewards.calculate import calculate_rewards
from tools.factories import (
    AgentFactory,
    DecisionFactory,
    FeedbackFactory,
    PhaseFactory,
    RewardFactory,
    RewardSpecFactory,
    uuid7_at,
)

NOW = timezone.now()
DAY = dt.timedelta(days=1)


def component(name: str, weight: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "parameters": {}, **more}


def decided(agent: Any, days: float, after: float | None = None, value: Any = "confirmed", **fields: Any) -> Any:
    """Made so many days ago; its verdict came so many minutes after, if any."""
    moment = NOW - days * DAY
    decision = DecisionFactory(agent=agent, id=uuid7_at(moment), observed_at=moment, **fields)
    if after is not None:
        FeedbackFactory(decision=decision, value=value, observed_at=moment + dt.timedelta(minutes=after))
    return decision


def path_of(agent: Any) -> str:
    return reverse("pages:agent-reward-history", args=[agent.workspace.slug, agent.slug])


def words(page: Any) -> str:
    return re.sub(r"(<[^>]+>|\s)+", " ", page.content.decode())


@pytest.fixture
def spec(agent: Any) -> Any:
    return RewardSpecFactory(
        agent=agent,
        components=[
            component("verdict", window_days=2),
            component("filer.alignment", 0.5, window_days=4, missing=0.5),
            component("trace.learned"),
        ],
    )


def test_it_adds_up_what_decisions_earned_and_what_they_wait_for(
    agent: Any, spec: Any, workspace: Any, viewer: Any, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    decided(agent, 10, 10), decided(agent, 10, 30, "corrected")
    waits, failing = decided(agent, 1), decided(agent, 1, 60)
    calculate_rewards(spec)
    RewardFactory(
        decision=failing, spec=spec, version=2, value=None, raw=None, components={"verdict": {"error": "b>d"}}
    )
    decided(AgentFactory(workspace=workspace, slug="other"), 1, 1)
    RewardDue.objects.create(workspace=workspace, spec=spec, decision=waits)
    MeasurementDue.objects.exclude(decision=waits).delete()  # the others were looked at, and too few labels are there
    PhaseFactory(experiment__registered_model=agent.registered_model, attribution_window_seconds=3600 * 12)
    client = page_client(viewer)
    client.get(path_of(agent))
    with django_assert_max_num_queries(14):
        page = client.get(path_of(agent))
    summary = page.context["summary"]
    # Raw: 1 + .25 and −.5 + .25 (the verdict of "corrected" is −.5), from [−2, 2]: .8125 and .4375.
    assert (summary.looked_at, summary.rewarded, summary.failed) == (4, 2, 1)
    assert summary.mean == pytest.approx(0.625) and summary.progress.due == 1
    parts = {one.entry.name: one for one in summary.components}
    assert (parts["verdict"].mean, parts["filer.alignment"].mean) == pytest.approx((0.25, 0.25))
    assert parts["trace.learned"].mean is None  # nobody knows
    assert parts["verdict"].states == {"value": 2, "maturing": 1, "failed": 1}
    assert parts["filer.alignment"].states == {"missing": 2, "maturing": 2}
    assert (parts["trace.learned"].states, parts["trace.learned"].queued) == ({"unmeasured": 4}, 1)
    days = {one.start.date(): one for one in summary.stretches if one.rewarded}
    (day,) = days.values()
    assert day.start.date() == (NOW - 10 * DAY).date() and day.mean == pytest.approx(0.625)
    assert day.low is None and not summary.partial  # two decisions say too little of their spread
    assert [horizon.horizon for horizon in summary.horizons] == ["immediate", "strategic"]
    text = words(page)
    assert "b&gt;d" in text and "b>d" not in text and str(failing.id) in page.content.decode()
    assert "2 maturing (4 d)" in text and "4 not measured (1 queued)" in text
    # Two after 10 and 30 minutes, one after an hour, one none for a day: the median is 30 minutes.
    lag = page.context["lag"]
    assert lag.median == pytest.approx(1800, abs=1) and "30 min median" in text
    half_a_day, two_days = sorted(lag.windows, key=lambda window: window.seconds)
    assert half_a_day.seconds == 43_200 and half_a_day.share.mean == pytest.approx(0.75)
    assert two_days.name == "window of verdict" and two_days.share is None  # what waits is one day old


def test_of_a_large_ledger_a_bounded_part_of_each_day_is_looked_at(
    agent: Any, viewer: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_sample, "LOOK", 14)
    for _ in range(3):
        decided(agent, 1)
    decided(agent, 2)
    page = page_client(viewer).get(path_of(agent), {"since": "7d"})
    summary = page.context["summary"]
    assert summary.looked_at == 3 and summary.partial
    assert "at most 2 of each day, the newest" in words(page)
    assert "No decision of this time has a reward yet." in words(page)
    assert "No decision of this time has a verdict yet." in words(page)


def test_a_verdict_that_was_taken_back_is_none(agent: Any, viewer: Any, page_client: Any) -> None:
    first, early = decided(agent, 1, 5), decided(agent, 2, -60)  # a verdict may come before its decision
    taken = first.feedback.get()
    FeedbackFactory(decision=first, metric="verdict_withdrawn", value="confirmed", supersedes=taken.id)
    curve = page_client(viewer).get(path_of(agent)).context["lag"].curve
    assert (curve.n, curve.events, curve.times.tolist()) == (2, 1, [0.0]) and early


@pytest.mark.parametrize("since", ["24h", "7d", "90d", "1y"])
def test_every_range_holds_now_and_an_unknown_one_is_refused(
    since: str, agent: Any, viewer: Any, page_client: Any
) -> None:
    decision = decided(agent, 0.001, 1)
    client = page_client(viewer)
    assert words(client.get(path_of(agent), {"since": since})).count("No decision of this time") == 1
    RewardFactory(decision=decision)
    page = client.get(path_of(agent), {"since": since})
    assert page.context["summary"].stretches[-1].rewarded + page.context["summary"].stretches[-2].rewarded == 1
    assert client.get(path_of(agent), {"since": "3d"}).status_code == 400


def test_an_agent_without_a_spec_says_so_and_outsiders_see_nothing(
    workspace: Any, viewer: Any, outsider: Any, page_client: Any
) -> None:
    bare = AgentFactory(workspace=workspace, slug="bare")
    assert "This agent has no reward spec" in words(page_client(viewer).get(path_of(bare)))
    assert page_client(outsider).get(path_of(bare)).status_code == 404


def test_the_api_tells_the_same(agent: Any, spec: Any, api: Any) -> None:
    decided(agent, 2, 10), decided(agent, 1)
    calculate_rewards(spec)
    client = api("export:read")
    told = client.get("agents/filer/rewards/summary?since=7d").json()
    assert (told["reward_spec"], told["since"], told["by"], told["sampled"]) == (2, "7d", "day", False)
    assert (told["looked_at"], told["rewarded"], told["mean"]) == (2, 1, 0.75)
    assert [one["mean"] for one in told["stretches"]].count(0.75) == 1 and len(told["stretches"]) == 7
    assert told["components"][0]["states"] == {"value": 1, "maturing": 1}
    assert told["lag"]["median_seconds"] == pytest.approx(600, abs=1)
    assert [one["share"] for one in told["lag"]["within"]] == [None, 0, 0.5, 0.5, None, None]
    assert told["progress"]["calculated_at"] is not None and told["failures"] == []
    assert client.get("agents/filer/rewards/summary?since=never").status_code == 400
    assert client.get("agents/nobody/rewards/summary").status_code == 404


def test_a_day_has_an_interval_over_its_units(agent: Any, viewer: Any, page_client: Any) -> None:
    for number in range(12):  # of six units, two decisions each
        decision = decided(agent, 2, unit=f"unit {number // 2}")
        RewardFactory(decision=decision, value=0.25 if number < 4 else 0.75)
    page = page_client(viewer).get(path_of(agent), {"since": "7d"})
    (day,) = [one for one in page.context["summary"].stretches if one.rewarded]
    # se² = 6/5 · (2 · (2/3)² + 4 · (1/3)²) / 12², and t with 5 degrees of freedom is 2.5706.
    reach = 2.5706 * ((6 / 5 * (2 * (2 / 3) ** 2 + 4 * (1 / 3) ** 2)) ** 0.5) / 12
    assert (day.mean, day.low, day.high) == pytest.approx((7 / 12, 7 / 12 - reach, 7 / 12 + reach), abs=1e-4)
    assert page.context["plot"].band.endswith("Z") and page.context["plot"].dots
