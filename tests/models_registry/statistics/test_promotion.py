"""The promotion rule: each condition alone forbids promotion, harm wins, and every reason is told."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.statistics.promotion import Bounds, Evidence, Guardrail, decide, write_e

BOUNDS = Bounds()
SOUND = Guardrail("errors", log_e_non_inferior=math.log(25), log_e_harm=0.0, units=900)
READY = Evidence(
    log_e_plus=math.log(41),
    log_e_minus=-5.0,
    matured_control=500,
    matured_treatment=500,
    age_seconds=7 * 86_400,
    guardrails=(SOUND,),
)
NUMBERS = st.floats(-50, 50)
GIVES_UP = dataclasses.replace(BOUNDS, futility_e=20.0)


def change(**fields) -> Evidence:
    return dataclasses.replace(READY, **fields)


def test_promotes_when_nothing_is_lacking():
    verdict = decide(READY, BOUNDS)
    assert verdict.action == "promote"
    assert verdict.reasons == ["E⁺ 41 has reached 40"]


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (change(log_e_plus=math.log(39)), "E⁺ 39 of 40"),
        (change(log_e_plus=math.nan), "E⁺ nan of 40"),
        (change(matured_control=499), "499 of 500 units with an outcome in control"),
        (change(matured_treatment=0), "0 of 500 units with an outcome in treatment"),
        (change(age_seconds=604_799), "6.9 of 7 days of age"),
        (change(sample_ratio_mismatch=True), "sample-ratio mismatch"),
        (
            change(guardrails=(SOUND, Guardrail("cost", math.log(19), 0.0, 9))),
            "guardrail “cost” not shown to be no worse: E 19 of 20",
        ),
        (change(guardrails=(SOUND, Guardrail("cost", 0.0, 0.0, 0))), "guardrail “cost” has no data yet"),
    ],
)
def test_each_lack_alone_forbids_promotion(evidence, reason):
    verdict = decide(evidence, BOUNDS)
    assert verdict.action == "continue"
    assert len(verdict.reasons) == 1
    assert verdict.reasons[0].startswith(reason)


@pytest.mark.parametrize(
    "evidence",
    [
        change(log_e_minus=math.log(20)),
        change(heartbeat_lost=True),
        change(requests_control=100, requests_treatment=100, failed_treatment=5),
        change(guardrails=(Guardrail("errors", math.log(25), math.log(20), 9),)),
    ],
)
def test_harm_rolls_back_even_beside_a_win_and_without_age_or_units(evidence):
    assert decide(evidence, BOUNDS).action == "roll_back"
    young = dataclasses.replace(evidence, matured_control=3, matured_treatment=3, age_seconds=1.0)
    assert decide(young, BOUNDS).action == "roll_back"


def test_each_of_two_guardrails_needs_twice_the_evidence():
    guardrails = (SOUND, Guardrail("cost", math.log(25), math.log(39), 9))
    assert decide(change(guardrails=guardrails), BOUNDS).action == "promote"
    guardrails = (SOUND, Guardrail("cost", math.log(25), math.log(40), 9))
    assert decide(change(guardrails=guardrails), BOUNDS).action == "roll_back"


def test_few_or_equal_failures_do_not_roll_back():
    assert decide(change(requests_control=99, requests_treatment=99, failed_treatment=50), BOUNDS).action == "promote"
    equal = change(requests_control=200, failed_control=20, requests_treatment=200, failed_treatment=20)
    assert decide(equal, BOUNDS).action == "promote"


def test_the_demonstration_has_its_own_bounds():
    quick = Bounds(min_units_per_arm=50, min_seconds=0)
    evidence = change(matured_control=50, matured_treatment=60, age_seconds=1.0)
    assert decide(evidence, quick).action == "promote"
    assert len(decide(change(matured_control=1, age_seconds=0.0, log_e_plus=0.0), BOUNDS).reasons) == 3


@given(plus=NUMBERS, minus=NUMBERS, units=st.integers(0, 1000), mismatch=st.booleans())
def test_more_evidence_of_benefit_never_undoes_a_promotion(plus, minus, units, mismatch):
    evidence = change(
        log_e_plus=plus, log_e_minus=minus, matured_control=units, matured_treatment=units,
        sample_ratio_mismatch=mismatch,
    )  # fmt: skip
    stronger = dataclasses.replace(evidence, log_e_plus=plus + 1)
    if decide(evidence, BOUNDS).action == "promote":
        assert decide(stronger, BOUNDS).action == "promote"
        assert not mismatch
    if minus >= math.log(20):
        assert decide(stronger, BOUNDS).action == "roll_back"
    assert decide(evidence, BOUNDS).reasons


@pytest.mark.parametrize(
    "fields", [{"promote_e": 1}, {"rollback_e": 0.5}, {"min_units_per_arm": 0}, {"max_excess_failures": 0}]
)
def test_bounds_that_bind_nothing_are_refused(fields):
    with pytest.raises(ValueError):
        Bounds(**fields)


@pytest.mark.parametrize(
    ("log_e", "written"),
    [
        (0.0, "1"),
        (math.log(0.01234), "0.0123"),
        (math.log(999_400), "999,400"),
        (math.log(46_333_027), "4.6 × 10⁷"),
        (math.log(9.97e12), "1.0 × 10¹³"),
        (math.log(2.5e-7), "2.5 × 10⁻⁷"),
        (2000.0, "3.9 × 10⁸⁶⁸"),  # more than a float holds
    ],
)
def test_an_e_value_is_written_as_people_read_it(log_e, written):
    assert write_e(log_e) == written


class TestGivingUp:
    FUTILE = change(log_e_plus=-0.1, log_e_futile=math.log(21))

    def test_ends_what_is_not_better_by_what_is_worth_finding(self):
        verdict = decide(self.FUTILE, GIVES_UP)
        assert verdict.action == "give_up"
        assert verdict.reasons == [
            "not better by the smallest effect that is worth finding: E of futility 21 has reached 20"
        ]

    @pytest.mark.parametrize(
        ("changes", "action"),
        [
            ({"log_e_futile": math.log(19)}, "continue"),
            ({"log_e_futile": math.nan}, "continue"),
            ({"age_seconds": 604_799}, "continue"),
            ({"sample_ratio_mismatch": True}, "continue"),
            ({"matured_treatment": 499}, "continue"),
            # Perhaps better, only not by much: it may still be promoted.
            ({"log_e_plus": 0.1}, "continue"),
            # Perhaps worse: it may be rolled back.
            ({"log_e_minus": 0.1}, "continue"),
            ({"log_e_plus": math.nan}, "continue"),
            ({"log_e_plus": math.log(41)}, "promote"),
            ({"log_e_minus": math.log(21)}, "roll_back"),
        ],
    )
    def test_not_for_any_other_reason(self, changes, action):
        assert decide(dataclasses.replace(self.FUTILE, **changes), GIVES_UP).action == action

    def test_never_unless_it_is_planned(self):
        assert decide(self.FUTILE, BOUNDS).action == "continue"

    @given(log_e_plus=NUMBERS, log_e_futile=NUMBERS, log_e_minus=NUMBERS)
    def test_adds_no_promotion_and_takes_none(self, log_e_plus, log_e_futile, log_e_minus):
        evidence = change(log_e_plus=log_e_plus, log_e_futile=log_e_futile, log_e_minus=log_e_minus)
        ends = [decide(evidence, bounds).action for bounds in (BOUNDS, GIVES_UP)]
        assert ends[0] == ends[1] or ends == ["continue", "give_up"]

    def test_a_bound_that_no_evidence_reaches_is_refused(self):
        with pytest.raises(ValueError, match="exceed 1"):
            Bounds(futility_e=1.0)
