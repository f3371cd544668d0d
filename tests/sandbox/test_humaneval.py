"""A sample of HumanEval: every canonical solution passes and no cheat does. benchmarks/sandbox.py takes all of it."""

from __future__ import annotations

import pytest

from sandbox.limits import Limits
from tools import humaneval

TASKS = (0, 32, 33, 38, 50, 53, 127)  # with helpers in the prompt, calls by name, and cases that are drawn
FALSE_SAMPLE, TRUE_SAMPLE = 1, 0

pytestmark = [
    pytest.mark.usefixtures("boxes"),
    pytest.mark.skipif(not (humaneval.DATA / humaneval.PROBLEMS).exists(), reason="HumanEval is not on this machine"),
]


@pytest.mark.slow
def test_canonical_solutions_pass_and_stubs_do_not() -> None:
    problems = [humaneval.read_problems()[number] for number in TASKS]
    solved = [problem.check(problem.prompt + problem.solution) for problem in problems]
    assert [checked.reason for checked in solved] == ["passed"] * len(TASKS)
    stubs = [problem.check(humaneval.CHEATS["stub"](problem)).passed for problem in problems]
    assert stubs == [False] * len(TASKS)


@pytest.mark.parametrize("name", [name for name in humaneval.CHEATS if name != "stub"])
@pytest.mark.quick_cases(2)
def test_no_cheat_passes(name: str) -> None:
    problem = humaneval.read_problems()[TASKS[1]]
    checked = problem.check(humaneval.CHEATS[name](problem), Limits(seconds=1, processes=1))
    assert not checked.passed, checked


def test_samples_of_a_model_are_told_apart() -> None:
    problems = humaneval.read_problems()[:1]
    samples = humaneval.read_samples(problems)[problems[0].task_id]
    assert len(samples) == 100
    assert problems[0].check(samples[TRUE_SAMPLE]).passed
    assert problems[0].check(samples[FALSE_SAMPLE]).reason == "failed"
