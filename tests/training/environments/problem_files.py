"""Word problems in GSM8K's form, made up here, as files that the environment `gsm8k` reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

THINGS = ("pears", "stamps", "tiles", "ropes", "jars", "maps")


def make_problem(number: int) -> dict[str, str]:
    """Bought, shared and given away; every third one is a line longer, every fourth without a calculation."""
    boxes, each, gone = 3 + number % 7, 4 + number % 5, 1 + number % 3
    thing, left = THINGS[number % len(THINGS)], boxes * each - gone
    question = f"Number {number}: Ada buys {boxes} boxes of {each} {thing} and gives {gone} away. How many are left?"
    if number % 4 == 3:
        return {"question": question, "answer": f"There are {left} left.\n#### {left}"}
    solution = (
        f"She buys {boxes}*{each}=<<{boxes}*{each}={boxes * each}>>{boxes * each} {thing}.\n"
        f"So {boxes * each}-{gone}=<<{boxes * each}-{gone}={left}>>{left} are left."
    )
    if number % 3:
        return {"question": question, "answer": f"{solution}\n#### {left:,}"}
    price = left * 250
    more = f"\nThey are worth 250*{left}=$<<250*{left}={price}>>{price}."
    return {
        "question": question.replace("many are left", "much are the rest worth, at $250 each"),
        "answer": f"{solution}{more}\n#### {price:,}",
    }


def write_problems(file: Path, first: int, count: int) -> Path:
    rows = (make_problem(number) for number in range(first, first + count))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def problem_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty problems to learn from and twenty to measure on, which RECKONER_WORD_PROBLEMS names."""
    folder = tmp_path / "problems"
    folder.mkdir()
    write_problems(folder / "train.jsonl", 0, 40)
    write_problems(folder / "test.jsonl", 100, 20)
    monkeypatch.setenv("RECKONER_WORD_PROBLEMS", str(folder))
    return folder
