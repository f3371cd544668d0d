"""Measures of a version's answers, and paired differences, against values counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.rewards.components import COMPONENTS
from models_registry.statistics.intervals import wilson_interval
from training.evaluation.suites.scoring import (
    OF_ANSWERS,
    OF_TEXTS,
    Answer,
    compare,
    find_unfit_components,
    make_value,
    read_answers,
    summarise,
)

RIGHT_OR_WRONG = {"right": 0.75, "wrong": 0.25}


def answer(row: int, right: str, action: str, p: float = 0.8, **more: Any) -> Answer:
    value = make_value(RIGHT_OR_WRONG)
    told = {"group": f"g{row}", "slice": "", "reward": value(action, right, p, None)} | more
    return Answer(id=str(row), answer=right, action=action, p=p, **told)


FOUR = [
    answer(1, "travel", "travel", 0.9),
    answer(2, "travel", "finance", 0.95),
    answer(3, "finance", "finance", 0.6),
    answer(4, "health", "finance", 0.7),
]


def test_measures_by_hand() -> None:
    found = summarise(FOUR, valid_share=0.5, free_rows=4)
    wilson = wilson_interval(2, 4)
    assert (found["accuracy"]["mean"], found["accuracy"]["low"]) == (0.5, wilson.low)
    assert (found["error_rate"]["mean"], found["error_rate"]["high"]) == (0.5, 1 - wilson.low)
    assert found["reward"]["mean"] == pytest.approx(0.5)
    assert (found["valid_share"]["mean"], found["valid_share"]["n"]) == (0.5, 4)
    # Bins: 0.6 right, 0.7 wrong, and 0.9 right with 0.95 wrong.
    assert found["calibration_error"] == pytest.approx((0.4 + 0.7 + 2 * abs(0.925 - 0.5)) / 4)
    labels = {one["label"]: one for one in found["labels"]}
    assert (labels["travel"]["accuracy"]["mean"], labels["travel"]["precision"]) == (0.5, 1.0)
    assert (labels["finance"]["chosen"], labels["finance"]["precision"]) == (3, pytest.approx(1 / 3))
    assert labels["health"]["precision"] is None
    assert [one["id"] for one in found["errors"]] == ["2", "4"]
    assert found["slices"] == []


def test_slices_are_of_a_field_and_clusters_of_the_group() -> None:
    rows = [answer(n, "a", "a" if n % 4 else "b", group=f"g{n // 4}", slice="x" if n < 8 else "y") for n in range(16)]
    found = summarise(rows, valid_share=None, free_rows=0)
    assert [(one["name"], one["rows"]) for one in found["slices"]] == [("x", 8), ("y", 8)]
    assert found["accuracy"]["clusters"] == 4 and "valid_share" not in found
    # All four groups are alike: an interval of no width would be a lie.
    assert found["accuracy"]["low"] < 0.75 < found["accuracy"]["high"]


def test_one_group_says_nothing_about_the_spread() -> None:
    found = summarise([answer(n, "a", "a", group="g") for n in range(3)], valid_share=None, free_rows=0)
    assert (found["accuracy"]["low"], found["accuracy"]["high"]) == (0.0, 1.0)


def test_differences_are_paired_and_by_label() -> None:
    better = [answer(n, "ab"[n % 2], "ab"[n % 2]) for n in range(40)]
    worse = [answer(n, "ab"[n % 2], "a") for n in range(40)]
    found = compare(better, worse)
    assert found["accuracy"]["mean"] == 0.5 and found["accuracy"]["low"] > 0
    assert found["reward"]["mean"] == pytest.approx(0.25)
    assert (found["labels"]["a"]["mean"], found["labels"]["b"]["mean"]) == (0.0, 1.0)
    assert compare(worse, better)["accuracy"]["mean"] == -0.5
    with pytest.raises(ValueError, match="different rows"):
        compare(better, worse[:-1])


def test_a_reward_function_values_the_model_s_own_action_and_a_failure_is_not_zero() -> None:
    value = make_value({"components": [{"name": "matches_answer", "weight": 2.0}]})
    assert (value("a", "a", 1.0, None), value("b", "a", 1.0, None)) == (2.0, 0.0)
    unknown = [answer(1, "a", "a"), answer(2, "a", "b", reward=None)]
    assert "reward" not in summarise(unknown, valid_share=None, free_rows=0)
    assert "reward" not in compare(unknown, FOUR[:2])


def test_predictions_have_to_be_of_the_rows() -> None:
    rows = [{"id": "1", "options": ["a", "b"], "answer": "a", "group": "g", "source": "label"}]
    told = {"id": "1", "action": "b", "p_action": 0.4}
    (found,) = read_answers([told], rows, slice_by="source", value=make_value(RIGHT_OR_WRONG))
    assert (found.group, found.slice, found.correct, found.reward) == ("g", "label", False, 0.25)
    with pytest.raises(ValueError, match="the suite has '1'"):
        read_answers([told | {"id": "2"}], rows, slice_by="", value=make_value(RIGHT_OR_WRONG))


WRITTEN = (
    # right, what the version wrote, whether both mean the same, whether that is JSON
    ('{"to": "Ann", "body": "Hello."}', '{"body": "Hello.", "to": "Ann"}', True, True),
    ('{"to": "Bob", "body": "Hi."}', '{"to": "Bob", "body": "Bye."}', False, True),
    ('{"to": "Cy"}', "I do not know", False, False),
    ("plain", "plain", True, None),
)


def texts(*scorer: dict[str, Any], written: Any = WRITTEN) -> list[Answer]:
    rows = [{"id": str(n), "answer": right} for n, (right, *_) in enumerate(written)]
    told = [
        {"id": str(n), "action": action, "p_action": 0.5, "correct": same, "valid": valid}
        for n, (_, action, same, valid) in enumerate(written)
    ]
    value = make_value({"components": scorer} if scorer else RIGHT_OR_WRONG)
    return read_answers(told, rows, slice_by="", value=value)


def test_texts_are_compared_by_meaning_and_field_by_field() -> None:
    found = summarise(texts(), valid_share=None, free_rows=0)
    assert (found["accuracy"]["mean"], found["reward"]["mean"]) == (0.5, 0.5)
    assert (found["valid_share"]["mean"], found["valid_share"]["n"]) == (pytest.approx(2 / 3), 3)
    assert [(one["name"], one["rows"], one["accuracy"]["mean"]) for one in found["fields"]] == [
        ("body", 2, 0.5),
        ("to", 3, pytest.approx(2 / 3)),
    ]
    assert found["labels"] == [] and [one["id"] for one in found["errors"]] == ["1", "2"]


def test_structured_choices_are_scored_by_field_too() -> None:
    rows = [answer(n, '{"a":1,"b":2}', written) for n, written in enumerate(('{"a":1,"b":2}', '{"a":1,"b":3}'))]
    found = summarise(rows, valid_share=None, free_rows=0)
    assert [(one["name"], one["accuracy"]["mean"]) for one in found["fields"]] == [("a", 1.0), ("b", 0.5)]
    assert [one["label"] for one in found["labels"]] == ['{"a":1,"b":2}']
    assert {name: one["mean"] for name, one in compare(rows, rows)["fields"].items()} == {"a": 0.0, "b": 0.0}


def test_texts_of_two_versions_are_compared_in_pairs() -> None:
    better = [(right, right, True, valid if valid is None else True) for right, _, _, valid in WRITTEN]
    found = compare(texts(written=better), texts())
    assert (found["accuracy"]["mean"], found["valid_share"]["mean"]) == (0.5, pytest.approx(1 / 3))
    assert {name: one["mean"] for name, one in found["fields"].items()} == {"body": 0.5, "to": pytest.approx(1 / 3)}
    assert "labels" not in found


def test_a_reward_function_values_what_was_written() -> None:
    found = texts({"name": "matches_answer"}, {"name": "valid_json", "weight": 0.5})
    assert [one.reward for one in found] == [1.5, 0.5, 0.0, 1.0]


@pytest.mark.parametrize("of_texts", [False, True])
def test_components_that_need_only_the_answer_have_a_value_and_the_others_are_unfit(of_texts: bool) -> None:
    own = COMPONENTS.own
    unfit = {name for name in own if find_unfit_components({"components": [{"name": name}]}, of_texts=of_texts)}
    right = '{"generatedContent": "One sentence. One more sentence."}' if of_texts else "travel"
    for name in own.keys() - unfit:
        value = make_value({"components": [{"name": name}]})
        assert value(right, right, 0.5, True if of_texts else None) is not None, name
    assert unfit == own.keys() - (OF_TEXTS if of_texts else OF_ANSWERS)
    # These would take what a suite does not hold for what is not so.
    assert {"verdict", "retriever.citations", "retriever.hallucination", "retriever.completeness"} <= unfit
