"""Word problems from a file in GSM8K's form: how they are read, graded and paid, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.environments.problem_files import make_problem, write_problems
from training.engine.environments.agents import ExpertAgent, act_now
from training.engine.environments.factory import environment_factory
from training.engine.environments.protocol import EnvironmentFault, draw_tasks
from training.engine.environments.tasks import Task
from training.engine.environments.word_problem_files import list_problems, read_problem
from training.engine.environments.word_problems import WordProblems

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "gsm8k"
LINE = {
    "question": "A tram has  18 seats. A third\nare free. How many are taken?",
    "answer": "18/3=<<18/3=6>>6 are free.\n18-6 = <<18-6=12>>12, not <<12=12>>12 or <<6*3=17>>.\n#### 12",
}


def begin(**facts: Any) -> WordProblems:
    world = WordProblems()
    world.reset(Task("t", "gsm8k", LINE["question"], {"answer": "12", "steps": ["18/3", "18-6"]} | facts))
    return world


def test_a_line_becomes_a_question_its_right_calculations_and_the_final_number() -> None:
    problem = read_problem(json.dumps(LINE))
    assert problem == ("A tram has 18 seats. A third are free. How many are taken?", "12", ("18/3", "18-6"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nothing", "is no JSON"),
        ("[1]", "needs the texts question and answer"),
        (json.dumps({"question": "How many?"}), "needs the texts question and answer"),
        (json.dumps(LINE | {"question": " "}), "question: has 0 characters"),
        (json.dumps(LINE | {"answer": "It is 12."}), "has no line that begins with ####"),
        (json.dumps(LINE | {"answer": "#### twelve"}), "'twelve' after #### is no number"),
    ],
)
def test_a_line_of_another_form_says_what_is_wrong(line: str, says: str, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(ValueError, match=says):
        read_problem(line)
    file = tmp_path / "some.jsonl"
    file.write_text(f"{json.dumps(LINE)}\n{line}\n")
    monkeypatch.setenv("RECKONER_WORD_PROBLEMS", str(file))
    with pytest.raises(EnvironmentFault, match=r"some\.jsonl:2: "):
        list_problems("train")


@pytest.mark.parametrize(
    ("answer", "right"), [("12", True), ("12.0", True), ("$12", True), ("24/2", True), ("13", False)]
)
def test_the_grader_compares_the_final_number_alone(answer: str, right: bool) -> None:
    world = begin()
    result = world.step(f"answer {answer}")
    assert (world.solved, world.score, result.done, result.reward) == (right, float(right), True, float(right))


def test_calculations_of_the_solution_pay_once_however_they_are_written() -> None:
    world = begin()
    earned = [world.step(f"calculate {text}").reward for text in ("18/3", "2*3", "18*3", "18-18/3")]
    assert earned == [0.5, 0.0, 0.0, 0.5]
    assert world.observe().endswith("Done: 18/3 = 6; 2*3 = 6; 18*3 = 54; 18-18/3 = 12")
    assert world.step("answer 12").reward == 1.0
    refused = begin().step("calculate __import__('os')")
    assert refused.reward == 0.0 and "no valid action" in refused.info["error"]


def test_without_calculations_the_answer_pays_all_and_is_offered_among_others() -> None:
    world = begin(steps=[])
    offered = world.get_valid_actions()
    assert "answer 12" in offered and len(offered) > 1
    assert world.step("answer 12").reward == WordProblems.most_reward


def test_wrong_calculations_are_offered_and_none_of_them_is_right(problem_folder: Path) -> None:
    for task in draw_tasks(WordProblems, 40, "train"):
        world = WordProblems()
        world.reset(task)
        paid = [action for action in world.get_valid_actions() if action.startswith("calculate") and pays(task, action)]
        assert len(paid) == min(2, len(task.facts["steps"]))
        assert len(world.get_valid_actions()) >= 3


def pays(task: Task, action: str) -> bool:
    world = WordProblems()
    world.reset(task)
    return world.step(action).reward > 0


def test_one_file_is_split_by_its_questions_and_a_folder_by_its_files(
    problem_folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    assert (WordProblems.count_tasks("train"), WordProblems.count_tasks("heldout")) == (40, 20)
    with pytest.raises(EnvironmentFault, match="there are 20 problems of the split heldout, and none number 20"):
        WordProblems.draw_task(20, "heldout")
    monkeypatch.setenv("RECKONER_WORD_PROBLEMS", str(write_problems(tmp_path / "one.jsonl", 0, 200)))
    texts = [
        {task.text for task in draw_tasks(WordProblems, WordProblems.count_tasks(split) or 0, split)}
        for split in ("train", "heldout")
    ]
    assert len(texts[0]) + len(texts[1]) == 200 and not texts[0] & texts[1] and 20 < len(texts[1]) < 60


@pytest.mark.parametrize(
    ("named", "says"), [("", "RECKONER_WORD_PROBLEMS is not set"), ("gone.jsonl", "cannot be read: No such file")]
)
def test_without_a_file_it_says_what_is_missing(named: str, says: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("RECKONER_WORD_PROBLEMS", named)
    with pytest.raises(EnvironmentFault, match=says):
        WordProblems.draw_task(0, "train")


def test_a_model_that_writes_its_calls_is_offered_nothing() -> None:
    made = make_problem(1)
    task = {
        "id": "t",
        "environment": "gsm8k",
        "text": made["question"],
        "facts": {"answer": "19", "steps": ["4*5", "20-1"]},
    }
    calls: Any = environment_factory("gsm8k")()
    assert "Done: nothing" in calls.reset(task=task)
    assert "4*5 = 20" in calls.calculate(expression="4*5")
    assert calls.calculate(expression="the sum").startswith("Error: ")
    calls.answer(number=" 19")
    assert calls.get_reward() == pytest.approx(0.75)


@pytest.mark.slow
def test_the_public_files_are_read_and_solved_by_their_own_solutions(monkeypatch: Any) -> None:
    if not (REAL / "train.jsonl").exists():
        pytest.skip(f"GSM8K is not at {REAL}")
    monkeypatch.setenv("RECKONER_WORD_PROBLEMS", str(REAL))
    assert (WordProblems.count_tasks("train"), WordProblems.count_tasks("heldout")) == (7473, 1319)
    for task in draw_tasks(WordProblems, 1319, "heldout"):
        episode = act_now(ExpertAgent(), WordProblems(), task)
        assert episode.success and episode.total_reward == pytest.approx(WordProblems.most_reward), task
