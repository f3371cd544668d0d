"""Rows are read with every fault named by file, line and field, and are taken in a reproducible order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from training.engine.data.reading import Batches, DataError, RunData, drop_tokens, read_data, read_rows
from training.engine.rows.types import Labelled, Logged, find_answers
from training.engine.spec.run_spec import RunSpec

LOGGED = {"id": "1", "prompt": "p", "options": ["a", "b"], "action": "a", "propensity": 0.5, "reward": 1.0}


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_rows_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", [LOGGED, "", LOGGED | {"id": "2", "reward": None, "group": "g"}])
    one, other = read_rows(path, Logged)
    assert (one.reward, other.reward, other.group) == (1.0, None, "g")
    assert one.options is other.options


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"propensity": 0.0}, "propensity"),
        ({"propensity": 1.5}, "propensity"),
        ({"propensity": "high"}, "$.propensity"),
        ({"reward": 2}, "reward"),
        ({"action": "c"}, "action"),
        ({"options": []}, "options"),
        ({"options": ["a", "a"]}, "options"),
        ({"options": ["a", ""]}, "options"),
        ({"rewrad": 1}, "rewrad"),
        ({"probabilities": [1.0]}, "probabilities: 1 are given for 2 options"),
        ({"probabilities": [0.5, 0.6]}, "probabilities"),
        ({"probabilities": [1.5, -0.5]}, "probabilities"),
    ],
)
def test_a_fault_names_its_line_and_field(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    path = written(tmp_path / "rows.jsonl", [LOGGED, LOGGED | change])
    with pytest.raises(DataError) as refused:
        read_rows(path, Logged)
    assert refused.value.faults[0].startswith("rows.jsonl:2: ")
    assert fault in refused.value.faults[0]


def test_probabilities_of_32_bits_may_be_a_little_above_1(tmp_path: Path) -> None:
    above = {"propensity": 1 + 2**-23, "probabilities": [1 + 2**-23, 0.0]}
    assert read_rows(written(tmp_path / "rows.jsonl", [LOGGED | above]), Logged)[0].propensity == above["propensity"]


def test_the_same_groups_are_held_back_and_an_empty_log_is_no_fault(tmp_path: Path) -> None:
    rows = [LOGGED | {"id": str(n), "group": f"g{n // 2}"} for n in range(400)]
    written(tmp_path / "train.jsonl", rows)
    written(tmp_path / "log.jsonl", [])
    spec = {
        "run_id": "x", "method": "posterior", "base": {"path": "/x"}, "held_back": 0.25,
        "data": {"train": "train.jsonl", "log": "log.jsonl"},
    }  # fmt: skip
    data = read_data(RunSpec.model_validate(spec), tmp_path)
    learnt = {row.group for row in data.logged}
    assert 0.15 < 1 - len(data.logged) / 400 < 0.35 and data.log == []
    assert not learnt & {row["group"] for row in rows if row["id"] not in {one.id for one in data.logged}}
    smaller = read_data(RunSpec.model_validate(spec | {"held_back": 0.1}), tmp_path)
    assert learnt < {row.group for row in smaller.logged}


def test_all_faults_are_named_at_once_up_to_a_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", ["{", "[" * 100_000, *[{"id": "1"}] * 30])
    with pytest.raises(DataError) as refused:
        read_rows(path, Labelled)
    assert len(refused.value.faults) == 21
    assert refused.value.faults[-1] == "rows.jsonl: and 12 more"


@pytest.mark.parametrize("name", ["missing.jsonl", "empty.jsonl"])
def test_a_file_without_rows_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataError, match=name):
        read_rows(tmp_path / name, Labelled)


def test_batches_visit_every_row_once_an_epoch_and_depend_on_seed_and_step_only() -> None:
    lengths = [random.Random(i).randint(1, 50) for i in range(203)]
    batches = Batches(lengths, 16, seed=5)
    for epoch in range(3):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        assert sorted(row for step in steps for row in batches.at(step)) == list(range(203))
    assert Batches(lengths, 16, seed=5).at(20) == batches.at(20)
    assert Batches(lengths, 16, seed=6).at(20) != batches.at(20)


def test_token_dropout_spares_the_template() -> None:
    ids = list(range(100))
    dropped = drop_tokens(ids, 3, 2, 0.5, random.Random(0))
    assert dropped[:3] == [0, 1, 2] and dropped[-2:] == [98, 99]
    assert 25 < len(dropped) < 75
    assert drop_tokens(ids, 3, 2, 0.0, random.Random(0)) == ids


def test_decisions_say_what_was_right_or_leave_it_open(tmp_path: Path) -> None:
    def row(name: str, options: list[str], reward: float | None) -> dict[str, Any]:
        return {"id": name, "prompt": name, "options": options, "action": "yes", "reward": reward}

    path = written(
        tmp_path / "log.jsonl",
        [
            row("right", ["yes", "no", "later"], 0.9),
            row("wrong", ["yes", "no"], 0.1),
            row("open", ["yes", "no", "later"], 0.1),
            row("untold", ["yes", "no"], None),
        ],
    )
    answers, unanswered = find_answers(read_rows(path, Logged))
    assert ([(one.id, one.answer) for one in answers], unanswered) == ([("right", "yes"), ("wrong", "no")], 1)


def test_only_texts_that_are_known_to_be_right_are_answers(tmp_path: Path) -> None:
    told = {
        "rewarded": {"reward": 0.6},
        "confirmed": {"reward": 0.2, "right": 1.0},
        "of people": {"source": "label", "verdict": "corrected"},
        "rejected": {"reward": 0.0},
        "corrected": {"reward": 0.9, "right": 0.0},
        "open": {},
    }
    rows = [{"id": name, "prompt": "p", "completion": name, **fields} for name, fields in told.items()]
    spec = {"run_id": "r", "method": "evaluate", "base": {"path": "/base"}, "data": {"heldout": "heldout.jsonl"}}
    spec["data"]["heldout_rows"] = "text"  # type: ignore[index]

    def read(rows: list[dict[str, Any]], **settings: Any) -> RunData:
        written(tmp_path / "heldout.jsonl", rows)
        return read_data(RunSpec.model_validate(spec | settings), tmp_path)

    found = read(rows)
    assert [row.id for row in found.heldout_texts] == ["rewarded", "confirmed", "of people"]
    assert (found.unanswered, found.without_feedback) == (2, 1)
    stricter = read(rows, kto={"right_from": 0.7})
    assert [row.id for row in stricter.heldout_texts] == ["confirmed", "of people"]
    with pytest.raises(DataError) as refused:
        read(rows[3:])
    assert "known to be right (2 were wrong, nobody judged 1)" in refused.value.faults[0]
