"""The plain classifier of words beside a model: what it learns from, what it answers, and where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engine_task import labelled
from tools.factories import OPTIONS
from training.engine.rows.types import Labelled, Logged
from training.evaluation.plain_baseline import compare_on_heldout, compare_with_words, read_lessons, teach_words


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


def test_it_orders_rankings_by_what_it_learnt_of_single_items(tmp_path: Path) -> None:
    def item(number: int, kind: type[Labelled] | type[Logged], words: str, **fields: Any) -> dict[str, Any]:
        slate = {"id": f"d{number // 3}", "item": str(number), "place": number % 3 + 1}
        row = {"id": str(number), "prompt": f"{words} {number}", "options": ["yes", "no"], "slate": slate}
        return msgspec.to_builtins(msgspec.convert(row | fields, kind))  # type: ignore[no-any-return]

    first = ["a flood", "dust"]
    train = [
        item(3 * n + place, Logged, first[n % 2] if not place else "a drip", action="yes" if not place else "no",
             reward=None if place else float(n % 2 == 0))
        for n in range(20) for place in range(3)
    ]  # fmt: skip
    heldout = [
        item(3 * n + place, Labelled, "a flood" if place == n % 3 else "dust", answer="yes" if place == n % 3 else "no")
        for n in range(5) for place in range(3)
    ]  # fmt: skip
    folder = write_run(tmp_path, train=train, heldout=heldout)
    told = read_lessons(folder)
    assert told[:2] == [("a flood 0", "yes"), ("dust 3", "no")] and len(told) == 20
    words = teach_words(told)
    assert words is not None
    lines = [{"id": row["id"], "model": "trained", "correct": True} for row in heldout]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = {"model": "trained", "scores": [0.0, 1.0, 2.0]}  # it always puts the third first
    ranked = [
        model | {"id": f"d{n}", "group": f"d{n}", "items": [f"{3 * n + place}" for place in range(3)],
                 "relevant": [place == n % 3 for place in range(3)]}
        for n in range(5)
    ]  # fmt: skip
    (folder / "rankings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ranked))
    found = compare_on_heldout(words, folder, folder / "predictions.jsonl", folder / "rankings.jsonl")
    assert found is not None
    first_place = found["rankings"]["hit_1"]
    assert (first_place["words"]["mean"], first_place["difference"]["mean"]) == (1.0, pytest.approx(1 / 5 - 1))


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
