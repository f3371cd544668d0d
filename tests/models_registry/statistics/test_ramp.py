"""When a ramp goes on: enough units, and no evidence of harm."""

import math

import pytest

from models_registry.statistics.promotion import Guardrail
from models_registry.statistics.ramp import RampBounds, find_obstacles

BOUNDS = RampBounds(units=250, max_e=4.0)
SOUND = (Guardrail("error_rate", 0.0, 0.0, 9), Guardrail("latency", 0.0, math.log(7.9), 9))


def obstacles(**changes):
    state = {"units": 250, "log_e_minus": math.log(3.9), "guardrails": SOUND, "sample_ratio_mismatch": False}
    return find_obstacles(**(state | changes), bounds=BOUNDS)


def test_it_goes_on_with_enough_units_and_no_shown_harm():
    assert obstacles() == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": 249}, "249 of 250 matured units in this phase"),
        ({"log_e_minus": math.log(4.0)}, "E⁻ 4 is not below 4"),
        ({"log_e_minus": math.nan}, "E⁻ nan is not below 4"),
        ({"guardrails": (SOUND[0], Guardrail("latency", 0.0, math.log(8.1), 9))}, "guardrail “latency”: E of harm 8.1"),
        ({"sample_ratio_mismatch": True}, "sample-ratio mismatch"),
    ],
)
def test_one_obstacle_is_enough_to_wait(changes, says):
    (found,) = obstacles(**changes)
    assert found.startswith(says)


@pytest.mark.parametrize("wrong", [{"units": 0}, {"max_e": 1.0}, {"max_e": math.nan}])
def test_bounds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError):
        RampBounds(**wrong)
