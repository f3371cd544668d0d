"""Equations as people write them, or what is wrong with them; what is read can be solved."""

from __future__ import annotations

import re

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from training.engine.environments.equation_texts import LARGEST, Equation, read_equation
from training.engine.environments.equations import Equations
from training.engine.environments.linear_texts import LONGEST

WRITTEN = {
    "3x + 7 = 16": (3, 7, 16),
    "Solve 16=7+3*X.": (3, 7, 16),
    "x \N{MINUS SIGN} 4 = -9": (1, -4, -9),
    "7x = 21": (7, 0, 21),
    "3 times a number minus 7 is 14": (3, -7, 14),
    "Solve for x: 3x + 7 = 16": (3, 7, 16),
    "Solve for y: 3y + 7 = 16": (3, 7, 16),
    "Find n if 2n = 8.": (2, 0, 8),
    "What is x if 3x + 7 = 16?": (3, 7, 16),
    "3z + 7 = 16, for z": (3, 7, 16),
    "please solve the equation 3 x + 7 = 16 for x": (3, 7, 16),
    "x + 7 = 16": (1, 7, 16),
    "3x + 7 = 17": (3, 7, 17),
    "5 = 2x + 3x + 1": (5, 1, 5),
}
"""Equations that need no working out: factor, number beside x, and the other side."""
WORKED_OUT = {
    "3x = x + 2": ((2, 0, 2), "Solve 3x = x + 2"),
    "-x = 3": ((1, 0, -3), "Solve -x = 3"),
    "5 - 2t = 1": ((2, -5, -1), "Solve 5 - 2x = 1"),
    "2(y + 3) = y + 10": ((1, 6, 10), "Solve 2(x + 3) = x + 10"),
    "x/2 + 3 = 7": ((1, 6, 14), "Solve x/2 + 3 = 7"),
    "(1/2)x - 1/3 = 2": ((3, -2, 12), "Solve (1/2)x - 1/3 = 2"),
    "0.5a + 0.25 = 1": ((2, 1, 4), "Solve 0.5x + 0.25 = 1"),
    "3[x − 2] ÷ 4 = -(x+1)": ((7, -6, -4), "Solve 3(x - 2)/4 = -(x + 1)"),
    "2^3 x = 4²": ((8, 0, 16), "Solve 2^3x = 4^2"),
    "(x)(2) = 6": ((2, 0, 6), "Solve (x)(2) = 6"),
}
"""The equation that is worked out first, and how the agent is told of it."""
WRONG = {
    "3x + 7": "has no equals sign",
    "Solve it": "has no equals sign",
    "x = 2 = 2": "has 2 equals signs",
    "4 = 4": "has no unknown",
    "x + y = 2": "has more than one unknown: x, y",
    "3x + 2y": "has no equals sign",
    "Solve for y: 3x = 6": "is to be solved for y, but its unknown is x",
    "x = x + 1": "has no solution: the unknown cancels out",
    "2(x + 1) = 2x + 2": "is true of every number",
    "x^2 = 4": "is not linear: the unknown has the power 2",
    "x² = 4": "is not linear: the unknown has the power 2",
    "xx = 4": "is not linear: the unknown is multiplied by itself",
    "x(x + 1) = 4": "is not linear: the unknown is multiplied by itself",
    "1/x = 4": "is not linear: something is divided by the unknown",
    "2^x = 8": "has an exponent that is no whole number",
    "9^9^9^9 x = 1": "cannot be read at '^9^9x'",
    "x/0 = 1": "divides by 0",
    "sin(x) = 0": "cannot be read at 'sin(x)'",
    "x + = 2": "ends where a number or the unknown is expected",
    "3 4 x = 2": "cannot be read at '4x'",
    "(x = 2": "has a bracket that is not closed",
    "x) = 2": "cannot be read at ')'",
    "x =": "nothing on one side",
    "x < 2 = 3": "cannot be read at '< 2'",
    "1.2.3x = 2": "cannot be read at '1.2.3x'",
    "x = 2000000": "beyond 1,000,000",
    "x = 99999999999": "cannot be read at",
    "9" * 5000 + "x = 3": "has 5005 characters, more than 200",
    "(" * 90 + "x" + ")" * 90 + " = 3": "has more than 20 brackets and signs inside each other",
    "-" * 150 + "x = 3": "has more than 20 brackets and signs inside each other",
    "(" * 18 + "9" + "^9)" * 18 + "x = 3": "has a number beyond 1,000,000,000,000",
    "999999999*" * 15 + "x = 1": "has a number beyond 1,000,000,000,000",
    "find " * 39: "has no equals sign",
}


def solve_by_expert(text: str) -> Equations:
    world = Equations()
    world.reset(Equations.read_problem(text))
    while not world.done:
        action = world.find_expert_action()
        offered = world.get_valid_actions()
        assert action in offered and len(set(offered)) == len(offered)
        world.step(action or "")
    return world


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_read_is_what_was_written_and_can_be_solved(text: str) -> None:
    assert read_equation(text).equation == WRITTEN[text]
    assert solve_by_expert(text).solved


@pytest.mark.parametrize("text", WORKED_OUT)
def test_what_has_to_be_worked_out_is_a_step_of_the_agent(text: str) -> None:
    equation, told = WORKED_OUT[text]
    task = Equations.read_problem(text)
    assert (read_equation(text).equation, task.text, task.template) == (equation, told, "collect")
    world = Equations()
    assert world.reset(task) == f"{told}. Now: not set up. Done: nothing"
    assert world.step(f"set up {Equation(*equation)}").reward == 1.0
    assert solve_by_expert(text).solved


@pytest.mark.parametrize("text", [*(text for text in WRITTEN if "times" not in text), *WORKED_OUT])
def test_sympy_finds_the_same_solution(text: str) -> None:
    equation, written, *_ = read_equation(text)
    factor, shift, right = equation
    sides = [
        sympy.sympify(re.sub(r"(?<=[0-9x)])(?=[x(])", "*", side).replace("^", "**"), rational=True)
        for side in written.split("=")
    ]
    x = sympy.Symbol("x")
    assert sympy.solve(sides[0] - sides[1], x) == [sympy.Rational(right - shift, factor)]


def test_the_answer_may_be_a_fraction() -> None:
    world = solve_by_expert("Solve for x: 4x + 1 = 7")
    assert world.solved and world.said[-2:] == ["divide 4", "answer 3/2"]


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_read_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(WRONG[text])) as error:
        read_equation(text)
    assert len(str(error.value)) < 300


@given(st.text(alphabet="xy0123456789.+-*/^()= ²:,forsolve", max_size=LONGEST))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        equation = read_equation(text).equation
    except ValueError as error:
        assert len(str(error)) < 300
    else:
        assert equation.factor >= 1 and max(map(abs, equation)) <= LARGEST


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
