"""The plain classifier of words beside a model: what it learns from, what it answers, and where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine_task import labelled
from tools.factories import OPTIONS
from training.engine.rows import Labelled
from training.plain_baseline import compare_on_heldout, compare_with_words, read_lessons, teach_words


def rows(count: int, seed: int) -> list[Labelled]:
    return [Labelled(**{**row, "options": tuple(row["options"])}) for row in labelled(count, seed)]


def lessons(count: int = 90) -> list[tuple[str, str]]:
    return [(row.prompt, row.answer) for row in rows(count, 1)]


def write_run(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    """A run's folder with these rows."""
    (folder / "data").mkdir()
    for part, lines in parts.items():
        (folder / "data" / f"{part}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    paths = {part: f"data/{part}.jsonl" for part in parts}
    spec = {"run_id": "r", "method": "posterior", "base": {"path": "/base"}, "data": paths}
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder


def logged(number: int, reward: float | None, **more: Any) -> dict[str, Any]:
    row = {"id": f"d{number}", "prompt": f"flight {number}", "options": list(OPTIONS), "action": "travel"}
    return {**row, "propensity": 0.5, "reward": reward, **more}


def test_it_chooses_among_the_options_of_the_row() -> None:
    words = teach_words(lessons())
    assert words is not None and words.rows == 90
    asked = rows(60, 2)
    found = compare_with_words(words, asked, [True] * 60)
    assert found["accuracy"]["mean"] > 0.9 and found["accuracy"]["clusters"] == 15
    assert found["difference"]["mean"] == pytest.approx(1 - found["accuracy"]["mean"])
    flight = Labelled("1", "flight to the hotel", ("health", "unheard of"), "health")
    assert words.choose([flight, Labelled("2", "flight", ("x", "y"), "x")]) == ["health", ""]
    # Of two actions the machine says one number a row.
    two = teach_words([one for one in lessons() if one[1] != "finance"])
    assert two is not None and two.choose([Labelled("1", "flight hotel", ("health", "travel"), "travel")]) == ["travel"]


@pytest.mark.parametrize(
    "taught",
    [[("a text", "one")] * 5, [(f"text {n}", f"option {n}") for n in range(201)], [("?", "one"), ("!", "two")], []],
    ids=["one action", "more than 200", "no words", "nothing"],
)
def test_there_is_none_where_nothing_can_be_told_apart(taught: list[tuple[str, str]]) -> None:
    assert teach_words(taught) is None


def test_it_learns_from_what_the_run_was_told_to_be_right(tmp_path: Path) -> None:
    told = [logged(0, 1.0), logged(1, 0.0), logged(2, None), logged(3, 1.0), logged(4, 0.2, right=1.0)]
    folder = write_run(tmp_path, train=told[:4], replay=labelled(2, 1))
    assert [text for text, _ in read_lessons(folder)] == ["flight 0", "flight 3", *(row.prompt for row in rows(2, 1))]
    # Where rows declare what was right, rewards do not say it.
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    assert read_lessons(folder)[0] == ("flight 4", "travel")
    (folder / "data" / "train.jsonl").unlink()  # erased
    assert read_lessons(folder) == []


def test_a_ranking_has_none(tmp_path: Path) -> None:
    slate = {"id": "d", "item": "a"}
    assert read_lessons(write_run(tmp_path, train=[logged(0, 1.0, slate=slate)])) == []


def test_both_answer_the_held_out_rows(tmp_path: Path) -> None:
    folder = write_run(tmp_path, train=[logged(0, 1.0)], heldout=labelled(30, 2))
    words = teach_words(lessons())
    assert words is not None
    predictions = folder / "predictions.jsonl"
    lines = [
        {"id": row.id, "model": model, "correct": model == "base"}
        for row in rows(30, 2)
        for model in ("base", "trained")
    ]
    predictions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = compare_on_heldout(words, folder, predictions)
    assert found is not None and found["difference"]["mean"] < -0.9 and found["difference"]["high"] < 0
