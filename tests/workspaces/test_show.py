"""How pages write numbers and moments."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from workspaces.templatetags import show


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.83412, "0.834"),
        (-0.5, "−0.5"),
        (12345, "12,345"),
        (12345.6, "12,346"),
        (0, "0"),
        (0.00001234, "1.23e-05"),
        (None, "–"),
        (True, "–"),
        (float("nan"), "–"),
        ("many", "–"),
    ],
)
def test_numbers_have_three_significant_digits(value: Any, shown: str) -> None:
    assert show.number(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.8341, "83.4%"),
        (0.05, "5.0%"),
        (1, "100.0%"),
        (0.0, "0.0%"),
        (0.9999, "> 99.9%"),
        (0.0002, "< 0.1%"),
        (-0.0001, "0.0%"),
        (None, "–"),
    ],
)
def test_shares_are_percentages_with_one_decimal(share: Any, shown: str) -> None:
    assert show.percent(share) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.63, "0.63"), (0.5576, "0.56"), (1, "1.00"), (-0.004, "0.00"), (None, "–"), (True, "–")]
)
def test_rewards_have_two_decimals(value: Any, shown: str) -> None:
    assert show.reward(value) == shown


def test_differences_carry_their_sign() -> None:
    assert (show.points(0.0912), show.points(-0.02), show.signed(-0.0123456)) == ("+9.1", "−2.0", "−0.01")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(8.31, "8.31 s"), (44.9, "45 s"), (60, "1 min"), (3725, "1 h 2 min"), (604800.0, "7 d"), (None, "–")],
)
def test_durations_name_two_units(seconds: Any, shown: str) -> None:
    assert show.duration(seconds) == shown


def test_a_moment_is_exact_in_its_attribute() -> None:
    shown = show.moment(dt.datetime(2024, 3, 9, 14, 5, tzinfo=dt.UTC))
    assert 'datetime="2024-03-09T14:05:00+00:00"' in shown and "9 Mar 2024, 14:05" in shown


def test_text_from_the_ledger_is_escaped() -> None:
    from django.template import Context, Template

    template = Template("{% load show %}{{ value|plain }}{% badge value %}")
    assert "<script>" not in template.render(Context({"value": "<script>"}))


def test_intervals_stay_on_their_axis() -> None:
    drawn = show.interval(0.2, -0.1, 2.0, -0.5, 0.5)
    assert (drawn["low"], drawn["mean"], drawn["high"], drawn["zero"]) == ("40.00%", "70.00%", "100.00%", "50.00%")
    assert show.interval(None, None, None) == {"known": False}


def test_an_events_details_are_one_line_without_what_is_not_known() -> None:
    line = show.details_line
    assert line({"device": "cpu", "resumed_from": None, "at_step": 0, "path": ""}) == "device cpu, at step 0"
    assert line({"values": {"loss": 1.5}, "files": ["a", "b"], "end": True}) == "loss 1.5, files a and b, end yes"
    assert line({"result": {"rows": 3, "scores": {"base": {"accuracy": 0.5}}}}) == "rows 3"


def test_a_persons_correction_does_not_look_like_a_fault() -> None:
    assert {show.badge(verdict)["tone"] for verdict in ("corrected", "overridden")} == {"info"}


def test_a_status_says_its_state_in_a_word_and_escapes_it() -> None:
    assert show.status("rolled_back") == '<span class="status bad">rolled back</span>'
    assert "<b>" not in show.status("<b>", "<b>")
