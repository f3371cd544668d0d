"""What it would take: between what was tried by interpolation, beyond it by a curve, and never past its reach."""

from __future__ import annotations

import pytest

from models_registry.statistics.promotion import Bounds
from training.rehearsal.outlook import needed_decisions, needed_units


def test_between_what_was_tried_it_interpolates() -> None:
    (half, all_of_it) = needed_decisions([1000, 2000], [0.7, 0.8], base=0.5, ceiling=0.8, shares=[0.75, 1.0])
    assert (half.decisions, half.extrapolated) == (500, False)
    assert all_of_it.decisions == 2000


def test_what_the_base_has_needs_no_decisions() -> None:
    (found,) = needed_decisions([1000], [0.7], base=0.6, ceiling=0.7, shares=[0.8])
    assert found.decisions == 0


@pytest.mark.parametrize(("scale", "power"), [(500, 0.5), (2000, 1.0)])
def test_beyond_it_the_curve_is_found_again(scale: float, power: float) -> None:
    tried = [1000, 2000, 4000, 8000]
    accuracy = [0.9 - 0.4 * (1 + n / scale) ** -power for n in tried]
    target = 0.9 - 0.4 * (1 + 20_000 / scale) ** -power
    (found,) = needed_decisions(tried, accuracy, base=0.5, ceiling=0.9, shares=[target / 0.9])
    assert found.extrapolated and found.decisions == pytest.approx(20_000, rel=0.15)


@pytest.mark.parametrize(("accuracy", "share"), [([0.5, 0.5], 0.95), ([0.51, 0.515], 0.99), ([0.7, 0.8], 1.0)])
def test_what_is_out_of_reach_has_no_number(accuracy: list[float], share: float) -> None:
    (found,) = needed_decisions([100, 200], accuracy, base=0.5, ceiling=0.9, shares=[share])
    assert found.decisions is None


def test_an_experiment_needs_more_units_for_a_smaller_gain() -> None:
    bounds = Bounds(min_units_per_arm=20)
    large = needed_units(0.5, 0.8, seed=1, bounds=bounds)
    small = needed_units(0.5, 0.6, seed=1, bounds=bounds)
    assert large is not None and small is not None
    assert 50 < large < 300 < small < 4000
    assert needed_units(0.5, 0.8, seed=1) >= 1000  # the bounds' own least number of units in each arm
    assert needed_units(0.6, 0.6, seed=1) is None and needed_units(0.5, 0.501, seed=1) is None
