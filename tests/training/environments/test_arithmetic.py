"""GSM8K's calculations are checked exactly, and its answers as the data's own `is_correct` says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from training.engine.environments.arithmetic import (
    NotArithmetic,
    Verdict,
    calculate,
    check_step,
    check_steps,
    is_right,
    read_final_answer,
    read_number,
)

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "gsm8k"
MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"needs {REAL}")


def lines(name: str) -> Iterator[dict[str, Any]]:
    with (REAL / name).open(encoding="utf-8") as read:
        yield from map(json.loads, read)


@real
@pytest.mark.slow
def test_every_step_of_the_training_answers_is_exact() -> None:
    """All 23,716, as the issue wants: 0.7 s. Those of the test's answers, and the models', are in a benchmark."""
    found = Counter(step.verdict for row in lines("train.jsonl") for step in check_steps(row["answer"]))
    assert found == {Verdict.EXACT: 23_716}


@real
def test_the_answers_of_all_model_solutions_are_judged_as_the_data_says() -> None:
    judged = [
        (is_right(row[model]["solution"], row["ground_truth"]), row[model]["is_correct"])
        for row in lines("example_model_solutions.jsonl")
        for model in MODELS
    ]
    assert len(judged) == 5_276
    assert [ours for ours, theirs in judged if ours != theirs] == []
    assert {theirs for _, theirs in judged} == {True, False}


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        ("48/2=24", Verdict.EXACT),
        ("12/60=0.2", Verdict.EXACT),
        (".25*8=2", Verdict.EXACT),
        ("2*(3+4)-1=13", Verdict.EXACT),
        ("-5+20=15", Verdict.EXACT),
        ("1,200*3=3,600", Verdict.EXACT),
        ("20%*50=10", Verdict.EXACT),
        ("7//2=3", Verdict.EXACT),
        ("0.1+0.2=0.3", Verdict.EXACT),
        ("10/3=3.33", Verdict.ROUNDED),
        ("1/3=33.3%", Verdict.ROUNDED),
        ("10/3=3.34", Verdict.WRONG),
        ("10/4=2", Verdict.WRONG),
        ("10/4=3", Verdict.WRONG),
        ("3+4=8", Verdict.WRONG),
        ("9**9**9=1", Verdict.UNREADABLE),
        ("4/0=0", Verdict.UNREADABLE),
        ("2x+1=5", Verdict.UNREADABLE),
        ("__import__('os')=1", Verdict.UNREADABLE),
        ("(1+2=3", Verdict.UNREADABLE),
        ("1,2*3=36", Verdict.UNREADABLE),
        ("5+=5", Verdict.UNREADABLE),
        ("42", Verdict.UNREADABLE),
        ("(" * 40 + "1" + ")" * 40 + "=1", Verdict.UNREADABLE),
        ("-" * 150 + "1=1", Verdict.UNREADABLE),
        ("9" * 300 + "=1", Verdict.UNREADABLE),
    ],
)
def test_a_step_is_what_its_numbers_say(step: str, verdict: Verdict) -> None:
    told = check_step(step)
    assert told.verdict is verdict
    assert (told.reason == "") is (verdict is Verdict.EXACT)


def test_steps_and_faults_are_named() -> None:
    first, second = check_steps("So 3 * 4 = <<3*4=12>>12, and 12 / 5 = <<12/5=2>>2.\n#### 2")
    assert (first.value, second.value) == (12, Fraction(12, 5))
    assert second.reason == "is 12/5, not 2"
    with pytest.raises(NotArithmetic, match="'x 3' is no number and none of"):
        calculate("2 x 3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,250", 1250),
        ("-3.50", Fraction(-7, 2)),
        ("$.5", Fraction(1, 2)),
        ("12.5%", Fraction(1, 8)),
        ("3/4", Fraction(3, 4)),
        ("18.", 18),
        ("2.0", 2),
        ("1,25", None),
        ("3/0", None),
        ("18 eggs", None),
        ("", None),
        ("-", None),
        (".", None),
        ("1e9", None),
        ("٣", None),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, value: Fraction | None) -> None:
    assert read_number(text) == value


def test_the_last_answer_counts_and_without_one_nothing_is_right() -> None:
    assert read_final_answer("A: 3\nNo:\n#### 1,004 ") == "1,004"
    assert is_right("so\nA: 1004.0", "#### 1,004")
    assert is_right("#### -3", "-3")
    assert not is_right("so it is 1004", "#### 1,004")
    assert not is_right("A: 1004.0001", "1004")
    assert is_right("A: 12+n", "12+n")
    assert not is_right("A: 12+n", "12")
