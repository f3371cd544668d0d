"""Equations as people write them, or what is wrong with them; what is read can be solved."""

from __future__ import annotations

import re

import pytest

from training.engine.environments.equation_texts import read_equation
from training.engine.environments.equations import Equations

WRITTEN = {
    "3x + 7 = 16": (3, 7, 16),
    "Solve 16=7+3*X.": (3, 7, 16),
    "x \N{MINUS SIGN} 4 = -9": (1, -4, -9),
    "7x = 21": (7, 0, 21),
    "3 times a number minus 7 is 14": (3, -7, 14),
}
WRONG = {
    "3x + 7": "no equals sign",
    "3x + 7 = 17": "x would be 10/3",
    "3x = x + 2": "x on both sides",
    "-x = 3": "a positive number of x",
    "4 = 4": "a positive number of x",
    "3y = 2": "cannot be read at 'y'",
    "x + = 2": "cannot be read at '+'",
    "x =": "nothing on one side",
    "x = 2000000": "beyond 1,000,000",
    "9" * 5000 + "x = 3": "cannot be read",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_read_is_what_was_written_and_can_be_solved(text: str) -> None:
    assert read_equation(text)[0] == WRITTEN[text]
    world = Equations()
    world.reset(Equations.read_problem(text))
    while not world.done:
        action = world.find_expert_action()
        assert action in world.get_valid_actions()
        world.step(action or "")
    assert world.solved


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_read_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(WRONG[text])) as error:
        read_equation(text)
    assert len(str(error.value)) < 300


def test_a_text_gives_the_task_that_is_drawn_alike() -> None:
    for number in range(4):
        drawn = Equations.draw_task(number, "train")
        read = Equations.read_problem(drawn.text)
        assert (read.text, read.facts, read.template, read.level) == (
            drawn.text,
            drawn.facts,
            drawn.template,
            drawn.level,
        )
