"""The attribution window that the lag of feedback asks for."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.rewards.feedback_lag import find_feedback_lag
from models_registry.experiments.feedback_lag import find_window
from models_registry.statistics.survival import kaplan_meier
from tools.factories import AgentFactory, DecisionFactory, FeedbackFactory

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def decided(agent, days_ago, lag_hours=None):
    moment = NOW - dt.timedelta(days=days_ago)
    decision = DecisionFactory(agent=agent, observed_at=moment)
    if lag_hours is not None:
        FeedbackFactory(decision=decision, observed_at=moment + dt.timedelta(hours=lag_hours))


def test_the_curve_counts_those_without_feedback_for_as_long_as_they_were_watched(agent):
    lags = [(20, 1.0), (15, 50.0), (10, None), (5, 30.0), (1, None)]
    for days, lag in lags:
        decided(agent, days, lag)
    decided(AgentFactory(workspace=agent.workspace), 3, 500.0)  # of another model
    decided(agent, 70, 900.0)  # too long ago
    found = find_feedback_lag(agent.registered_model, now=NOW)
    hours = [lag if lag is not None else days * 24 for days, lag in lags]
    expected = kaplan_meier([3600 * one for one in hours], [lag is not None for _, lag in lags])
    assert (found.n, found.events) == (5, 3)
    assert found.times == pytest.approx(expected.times)
    assert found.survival == pytest.approx(expected.survival)


@pytest.mark.parametrize(
    ("lags", "hours"),
    [
        ([2.0] * 20, 24),  # at least a day
        ([2.0] * 18 + [60.0] * 2, 60),
        ([2.0] * 15 + [None] * 5, 720),  # too many never get any: the longest there is
        ([None] * 5, 24),  # nothing is known yet
    ],
)
def test_the_window_is_the_95th_percentile_from_a_day_to_thirty(agent, lags, hours):
    for number, lag in enumerate(lags):
        decided(agent, 35 + number % 5, lag)
    assert find_window(agent.registered_model) == pytest.approx(hours * 3600, rel=1e-6)
