"""The expected time of a verdict against simulated experiments, and its arithmetic."""

import math

import numpy as np
import pytest

from models_registry.statistics.e_process import run_e_process
from models_registry.statistics.time_to_verdict import (
    DURATION,
    UNITS,
    Arrivals,
    Hurdle,
    Schedule,
    forecast_verdict,
)

STEADY = Arrivals(1000.0, (500.0, 1000.0))
"""One unit a second."""


def schedule(**changes):
    plan = {"shares": (0.5,), "phase_units": 100, "window_seconds": 0.0, "min_units": 1, "min_seconds": 0.0}
    return Schedule(**plan | {"rewarded": 1.0} | changes)


def simulate(effect, base, share, runs=60, units=4000):
    rng = np.random.default_rng(3)
    arms = (rng.random((runs, units)) < share).astype(int)
    outcomes = (rng.random((runs, units)) < base + effect * arms).astype(float)
    reached = run_e_process(arms, share, outcomes).log_e_plus >= math.log(40)
    return float(np.median(np.where(reached.any(1), reached.argmax(1) + 1.0, np.inf)))


@pytest.mark.parametrize(("effect", "base", "share"), [(0.1, 0.3, 0.5), (0.2, 0.4, 0.1)])
def test_it_is_within_a_quarter_of_the_simulated_median(effect, base, share):
    mean = base + effect / 2
    hurdle = Hurdle("evidence", effect, mean * (1 - mean), math.log(40))
    found = forecast_verdict(schedule(shares=(share,)), [hurdle], STEADY)
    assert found.units == pytest.approx(simulate(effect, base, share), rel=0.25)
    assert found.seconds == pytest.approx(found.units)
    assert found.slowest == "evidence"


def test_a_guardrail_on_what_never_happens_takes_what_its_docstring_says():
    never = Hurdle("error_rate", 0.01, 0.0, math.log(20))
    assert forecast_verdict(schedule(), [never], STEADY).units == pytest.approx(1200 * 1.15, rel=0.03)


def test_the_slowest_condition_counts_and_windows_come_on_top():
    quick = Hurdle("evidence", 0.5, 0.1, math.log(40))
    found = forecast_verdict(schedule(min_units=300, rewarded=0.5, window_seconds=50.0), [quick], STEADY)
    assert (found.slowest, found.units) == (UNITS, pytest.approx(1200, rel=0.01))
    assert found.seconds == pytest.approx(found.units + 50)
    old = forecast_verdict(schedule(min_seconds=5e5), [quick], STEADY)
    assert (old.slowest, old.seconds) == (DURATION, 5e5)
    hopeless = forecast_verdict(schedule(), [Hurdle("evidence", 1e-6, 1.0, math.log(40))], STEADY)
    assert (hopeless.seconds, hopeless.units, hopeless.slowest) == (None, None, "evidence")


def test_a_phase_opens_once_enough_units_have_matured_and_small_shares_take_longer():
    even = Hurdle("evidence", 0.1, 0.2, math.log(40))
    ramp = schedule(shares=(0.05, 0.25, 0.5), window_seconds=60.0)
    found = forecast_verdict(ramp, [even], STEADY)
    assert found.phases == ((0.05, 0.0), (0.25, pytest.approx(160)), (0.5, pytest.approx(320)))
    at_once, held = (forecast_verdict(schedule(shares=(share,)), [even], STEADY).units for share in (0.5, 0.05))
    assert at_once < found.units < held


def test_units_come_as_they_came_and_then_as_of_late():
    came = Arrivals(100.0, (50.0, 60.0))
    assert (came.find_moment(25), came.find_moment(60), came.find_moment(70)) == (25.0, 100.0, 150.0)
    assert (came.count_until(25), came.count_until(150)) == (25.0, 70.0)
    with pytest.raises(ValueError, match="later half"):
        Arrivals(100.0, (50.0, 50.0))


def test_a_third_of_the_units_takes_three_times_as_long():
    even = Hurdle("evidence", 0.1, 0.2, math.log(40))
    alone, in_a_lane = (forecast_verdict(schedule(), [even], arrivals) for arrivals in (STEADY, STEADY.thin(1 / 3)))
    assert in_a_lane.units == pytest.approx(alone.units, rel=0.01)
    assert in_a_lane.seconds == pytest.approx(3 * alone.seconds, rel=0.01)
