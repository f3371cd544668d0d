"""Vowpal Wabbit's text: what was taken, its probability and cost, of events in one line and in several."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.importers import vw_text
from decisions.models import Decision, Feedback

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "vw", "--agent", "news", "--create-agents", "--observed-at", "2024-06-20T00:00:00Z")
SEVERAL = "shared |user tier=pro age:0.5\n'weather |a rain\n0:-1.5:0.25 'sports |a tennis:2 word\n\n"


def test_lines_of_an_event_are_its_actions(importing: Any, lines: Any) -> None:
    done = importing(lines(SEVERAL, "|a x\n1:0:1.0000001 |a y\n", name="log.vw"), *FLAGS)
    assert done.code == 0, done.errors
    first, second = Decision.objects.order_by("id")
    assert (first.action, first.options, first.propensity) == ("sports", ["weather", "sports"], 0.25)
    assert first.state == {
        "context": {"user": {"tier=pro": 1.0, "age": 0.5}},
        "actions": {"weather": {"a": {"rain": 1.0}}, "sports": {"a": {"tennis": 2.0, "word": 1.0}}},
    }
    assert (second.action, second.options, second.propensity) == ("2", ["1", "2"], 1.0)
    assert [float(value) for value in Feedback.objects.order_by("id").values_list("value", flat=True)] == [1.5, 0]


@pytest.mark.parametrize(("first", "options"), [(1, ["1", "2", "3"]), (0, ["0", "1", "2", "3"])])
def test_an_event_of_one_line_names_its_action_by_number(
    importing: Any, lines: Any, first: int, options: list[str]
) -> None:
    done = importing(lines(f"{first}:2:0.4 | a c", "3:0.5:0.2 'e-7 | b d", name="log.txt"), *FLAGS)
    assert done.code == 0, done.errors
    one, three = Decision.objects.order_by("id")
    assert (one.action, one.options, one.propensity) == (str(first), options, 0.4)
    assert one.state == {"context": {"features": {"a": 1.0, "c": 1.0}}}
    assert (three.action, three.external_id) == ("3", "e-7")
    assert list(Feedback.objects.order_by("id").values_list("value", flat=True)) == [-2, -0.5]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 |f a b", "label: '1' is no action:cost:probability; without one nothing was decided"),
        ("1:2.0 2:3.0 |f a", "label: '1:2.0' is no action:cost:probability; without one nothing was decided"),
        ("1:0:0.5 2:1:0.5 |f a", "label: names several actions that were taken"),
        ("1:0:0 |f a", "label: the probability 0.0 must be above 0, up to 1"),
        ("1:0:nan |f a", "label: the probability nan must be above 0, up to 1"),
        ("1:nan:0.5 |f a", "label: the cost nan is not a number"),
        ("1:0:0.5 |f a:inf", "f: the value of 'a' is not a number"),
        ("1:0:0.5 no features", "is not Vowpal Wabbit's text: it has no |"),
    ],
)
def test_what_is_no_decision_is_refused_by_what_it_is(importing: Any, lines: Any, line: str, reason: str) -> None:
    path = lines("2:0:0.5 |f a", line, "2:0:0.5 |f b", name="log.vw")
    done = importing(path, *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, 2), done.report
    [refusal] = done.report["refusals"]
    assert refusal.startswith(f"{path}:2: {reason}"), refusal


def test_an_event_or_line_that_is_too_long_is_refused_whole(
    importing: Any, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a cut line or event would be another decision."""
    monkeypatch.setattr(vw_text, "LONGEST_LINE", 100)
    monkeypatch.setattr(vw_text, "LONGEST_RECORD", 1000)
    long_line, many = "1:0:0.5 | " + "a " * 100, "0:0:0.5 | a\n" + "| b\n" * 400
    blocks = [
        "1:0:0.5 | a\n2:1:0.5 | b\n",
        f"{long_line}\n",
        f"shared | x\n{many}\n",
        "1:0:0.5 | c\n" * 50 + "| no label\n" + "1:0:0.5 | c\n" * 150,
    ]
    path = lines("\n".join(blocks), name="log.vw")
    done = importing(path, *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, 202), done.report
    reason = "has more than 10,000 actions, 0 MiB, or 0 MiB in a line"
    first, second, third = done.report["refusals"]
    assert [first, second] == [f"{path}:4: {reason}", f"{path}:6: {reason}"]
    assert third.endswith("label: names no action that was taken: one action:cost:probability is needed")
