"""Reliability and confusion of a run, from the files that its attempt left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from models_registry.statistics.intervals import wilson_interval
from tools.factories import TrainingRunFactory
from training.evaluation.predictions import OPTIONS, calculate_confusion, calculate_reliability

ANSWERS = {"1": "graphs", "2": "graphs", "3": "tables"}


def predict(row: str, action: str, sure: float, model: str = "trained") -> dict[str, Any]:
    return {"id": row, "model": model, "action": action, "p_action": sure, "correct": action == ANSWERS[row]}


LINES = [
    predict("1", "graphs", 0.92),
    predict("2", "tables", 0.96),
    predict("3", "tables", 0.31),
    predict("1", "tables", 0.5, "base"),
    predict("2", "tables", 0.5, "base"),
    predict("3", "tables", 0.5, "base"),
]


def leave(folder: Path, attempt: int, lines: list[dict[str, Any]]) -> None:
    place = folder / "attempts" / str(attempt)
    place.mkdir(parents=True)
    (place / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"run_id": "x", "method": "posterior", "attempt": attempt, "predictions": "predictions.jsonl"}
    (place / "result.json").write_text(json.dumps(result))


def test_a_bin_holds_the_share_that_was_right() -> None:
    low, high = calculate_reliability([line for line in LINES if line["model"] == "trained"])
    right = wilson_interval(1, 2)
    assert (low.confidence, low.accuracy, low.rows) == (0.31, 1.0, 1)
    assert (high.confidence, high.accuracy, high.rows) == (pytest.approx(0.94), 0.5, 2)
    assert (high.low, high.high) == (right.low, right.high)


def test_a_probability_of_one_is_in_the_last_bin() -> None:
    assert [one.rows for one in calculate_reliability([predict("1", "graphs", 1.0), predict("1", "graphs", 0.95)])] == [
        2
    ]


def test_the_confusion_counts_by_answer() -> None:
    options, table = calculate_confusion([line for line in LINES if line["model"] == "trained"], ANSWERS)
    assert options == ["graphs", "tables"]
    found = {answer: (rows, [(cell.rows, cell.share, cell.right) for cell in cells]) for answer, rows, cells in table}
    assert found == {"graphs": (2, [(1, 0.5, True), (1, 0.5, False)]), "tables": (1, [(0, 0.0, False), (1, 1.0, True)])}


def test_too_many_options_make_no_table() -> None:
    answers = {str(number): f"topic {number}" for number in range(OPTIONS + 1)}
    rows = [{"id": key, "action": answer} for key, answer in answers.items()]
    assert calculate_confusion(rows, answers) == ([], [])


class TestPart:
    @pytest.fixture
    def run(self, agent: Any) -> Any:
        return TrainingRunFactory(agent=agent, method="posterior")

    def read(self, run: Any, client: Any) -> Any:
        return client.get(reverse("pages:run-predictions", args=[run.workspace.slug, run.id]))

    def test_a_run_without_files_shows_nothing(self, run: Any, store: Path, viewer: Any, page_client: Any) -> None:
        answer = self.read(run, page_client(viewer))
        assert answer.status_code == 200 and answer.content.strip() == b""

    def test_the_newest_complete_attempt_is_read(
        self, run: Any, store: Path, viewer: Any, page_client: Any, settings: Any
    ) -> None:
        folder = settings.RUNS / str(run.id)
        leave(folder, 2, [predict("1", "tables", 0.1)])
        leave(folder, 10, LINES)
        (folder / "attempts" / "11").mkdir()  # under way: no result yet
        answer = self.read(run, page_client(viewer))
        seen = answer.context["seen"]
        assert seen.rows == 3 and seen.confusion == []  # the held-out rows are gone: no answers, no confusion
        assert seen.error["base"] == pytest.approx(abs(0.5 - 1 / 3))
        figure = json.loads(json.dumps(answer.context["reliability"], allow_nan=False))
        assert figure["series"][0]["label"] == "trained"
        assert answer.content.decode().count("<script") == 0
