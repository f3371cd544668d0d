"""What it would take: between what was tried by interpolation, beyond it by a curve, and never past its reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models_registry.statistics.promotion import Bounds
from training.loops.rehearsal.outlook import VersionPair, _draw, needed_decisions, needed_units


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


def make_pair(right_control: float, right_treatment: float, **person: float) -> VersionPair:
    """Two versions of these accuracies, each sure of half of the rows and unsure of the other half, not the same."""
    control, treatment = np.array([-0.2, -0.2, 0.2, 0.2]), np.array([-0.2, 0.2, -0.2, 0.2])
    policies = [
        np.clip(np.stack([share + sure, 1 - share - sure], axis=1), 0.0, 1.0)
        for share, sure in ((right_control, control), (right_treatment, treatment))
    ]
    return VersionPair(*policies, right=np.zeros(4, dtype=np.int64), **person)


@pytest.mark.slow
class TestNeededUnits:
    FEW = Bounds(min_units_per_arm=20)
    LOOSE = (0.5, 0.5, 0.5)
    DEFAULT = (0.01, 0.02, 0.05)

    def test_a_smaller_gain_noise_and_a_narrower_outcome_need_more(self) -> None:
        large, small, noisy, narrow = (
            needed_units(pair, seed=1, bounds=self.FEW, margins=self.LOOSE) or 0
            for pair in (
                make_pair(0.5, 0.8),
                make_pair(0.5, 0.6),
                make_pair(0.5, 0.6, noise=0.2),
                replace(make_pair(0.5, 0.6), outcomes=(0.4, 0.8)),
            )
        )
        assert 40 <= large < 100 < small < 200 < min(noisy, narrow)

    def test_the_rule_waits_for_its_least_units_and_for_its_guardrails(self) -> None:
        gain = make_pair(0.5, 0.8)
        least = needed_units(gain, seed=1, margins=self.LOOSE)
        guarded = needed_units(gain, seed=1, margins=self.DEFAULT)
        silent = needed_units(replace(gain, missing=0.25), seed=1, margins=self.DEFAULT)
        assert least is not None and guarded is not None and silent is not None
        assert 1000 <= least < 1100 < guarded < 1500 < 2000 < silent < 4000

    def test_what_is_no_better_is_never_promoted(self) -> None:
        assert needed_units(make_pair(0.6, 0.6), seed=1, margins=self.LOOSE) is None
        assert needed_units(make_pair(0.6, 0.5), seed=1, margins=self.LOOSE) is None
        assert needed_units(make_pair(0.5, 0.51), seed=1, margins=self.LOOSE, most=1200) is None

    def test_options_are_drawn_by_their_probabilities(self) -> None:
        policy = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
        rows = np.repeat([0, 1], 20_000)
        drawn = _draw(policy, rows, np.random.default_rng(0))
        assert np.bincount(drawn[rows == 0]) / 20_000 == pytest.approx(policy[0], abs=0.015)
        assert (drawn[rows == 1] == 1).all()
