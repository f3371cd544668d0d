"""Reward components: facts in, numbers out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.rewards.components import COMPONENTS, ComponentError, Facts
from decisions.rewards.valuing import attainable_range, normalise, total


class TestComponents:
    @pytest.mark.parametrize(
        ("weights", "expected"),
        [
            ({"verdict": 1.0}, (0.3, 0.75)),  # −0.8 to 1 of −2 to 2
            ({"verdict": -1.0}, (0.25, 0.7)),
            ({"verdict": 1.0, "calibration": 0.5}, (0.175, 0.75)),
            ({"calibration": 1.0}, (0.25, 0.5)),
            ({"verdict": 9.0}, (0.0, 1.0)),  # clamped
        ],
    )
    def test_every_reward_lies_in_the_attainable_range(self, weights, expected):
        told = [{"name": name, "weight": weight} for name, weight in weights.items()]
        low, high = attainable_range(told, clamp=5.0, low=-2.0, high=2.0)
        assert (low, high) == pytest.approx(expected)
        for verdict in ("confirmed", "corrected", "overridden"):
            for confidence in (0.0, 0.6, 1.0):
                seen = Facts(measures={"verdict": verdict}, confidence=confidence)
                values = {name: COMPONENTS[name].function(seen, {}) for name in weights}
                assert low - 1e-9 <= normalise(total(values, weights)) <= high + 1e-9

    @pytest.mark.parametrize(
        ("name", "facts", "value"),
        [
            ("verdict", Facts(), None),
            ("verdict", Facts(measures={"verdict": "confirmed"}), 1.0),
            ("verdict", Facts(measures={"verdict": "corrected"}), -0.5),
            ("verdict", Facts(measures={"verdict": "overridden"}), -0.8),
            ("verdict", Facts(measures={"verdict": "ignored"}), 0.0),
            ("calibration", Facts(confidence=0.7), None),
            ("calibration", Facts(measures={"verdict": "ignored"}), None),
            ("calibration", Facts(measures={"verdict": "confirmed"}, confidence=0.7), pytest.approx(-0.3)),
            ("calibration", Facts(measures={"verdict": "corrected"}, confidence=0.7), pytest.approx(-0.7)),
            ("matches_answer", Facts(action="a", answer="a"), 1.0),
            ("matches_answer", Facts(action="b", answer="a"), 0.0),
            ("valid_json", Facts(completion='{"a": 1}'), 1.0),
            ("valid_json", Facts(completion="12"), 0.0),
            ("valid_json", Facts(completion="[" * 100_000), 0.0),
        ],
    )
    def test_values(self, name, facts, value):
        assert COMPONENTS[name].function(facts, COMPONENTS[name].parameters) == value

    @pytest.mark.parametrize(
        ("name", "facts"),
        [
            ("verdict", Facts(measures={"verdict": "liked"})),
            ("calibration", Facts(measures={"verdict": "confirmed"}, confidence=1.2)),
            ("matches_answer", Facts(action="a")),
            ("matches_answer", Facts(answer="a")),
            ("valid_json", Facts(action="a")),
        ],
    )
    def test_what_cannot_be_computed_is_an_error_and_not_a_number(self, name, facts):
        with pytest.raises(ComponentError):
            COMPONENTS[name].function(facts, COMPONENTS[name].parameters)

    @given(st.dictionaries(st.sampled_from("abc"), st.floats(-100, 100)), st.floats(0.1, 10))
    def test_totals_are_clamped_and_rewards_lie_between_0_and_1(self, values, clamp):
        raw = total(values, dict.fromkeys("abc", 2.0), clamp=clamp)
        assert -clamp <= raw <= clamp
        assert 0 <= normalise(raw) <= 1

    def test_the_scale(self):
        assert [normalise(raw) for raw in (-3, -2, 0, 1, 2, 3)] == [0, 0, 0.5, 0.75, 1, 1]
