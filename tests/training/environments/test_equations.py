"""Equations: what each step pays, and sympy's opinion of every step and answer."""

from __future__ import annotations

import sympy

from training.engine.environments.equations import Equations
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.tasks import Task

X = sympy.Symbol("x")


def given(factor: int, shift: int, right: int, *, words: bool = False) -> Equations:
    facts = {"factor": factor, "shift": shift, "right": right, "words": words}
    world = Equations()
    world.reset(Task(id="t", environment="equations", text="Solve it", facts=facts))
    return world


def earn(world: Equations, *actions: str) -> list[float]:
    """What each action earns; they may be others than those on offer."""
    return [world.act(action) for action in actions]


def test_three_x_plus_seven_is_sixteen_pays_eight_and_a_half() -> None:
    world = given(3, 7, 16)
    actions = ["identify linear", "subtract 7", "divide 3", "answer 3"]
    assert [world.step(action).reward for action in actions] == [1.5, 2.0, 2.0, 3.0]
    assert (world.solved, world.score, world.done) == (True, 1.0, True)


def test_a_word_problem_is_set_up_first() -> None:
    world = given(3, 7, 16, words=True)
    assert "3x" not in world.observe()
    assert earn(world, "set up 3x - 7 = 16", "set up 3x + 7 = 16", "identify linear") == [0.0, 1.0, 1.5]


def test_every_kind_of_step_pays_once_and_only_for_progress() -> None:
    assert earn(given(3, 7, 16), "identify quadratic", "identify linear", "identify linear") == [0.5, 1.0, 0.0]
    # Nearer, there, back, and there again: two in all.
    assert earn(given(3, 7, 16), "subtract 4", "subtract 3", "add 7", "subtract 7") == [1.0, 1.0, 0.0, 0.0]
    assert earn(given(3, 7, 16), "add 7", "subtract 7", "subtract 7") == [0.0, 1.0, 1.0]
    # Dividing before the number is gone is no progress, nor is a division that would leave a fraction.
    world = given(6, 12, 30)
    assert earn(world, "divide 4", "divide 3", "subtract 4", "divide 2", "answer 3") == [0.0, 0.0, 2.0, 2.0, 3.0]


def test_a_wrong_answer_ends_the_episode_and_earns_nothing() -> None:
    world = given(3, 7, 16)
    assert earn(world, "answer 4") == [0.0]
    assert (world.done, world.solved, world.score) == (True, False, 0.0)


def test_sympy_agrees_with_every_step_and_answer() -> None:
    """Whatever is done to both sides, the equation keeps its solution, and only that answer counts as right."""
    for number, task in enumerate(draw_tasks(Equations, 40, "train")):
        world = Equations()
        world.reset(task, number)
        (solution,) = sympy.solve(_read(world), X)
        while not world.done:
            before = _read(world)
            action = world.random.choice(world.get_valid_actions()) if world.steps < 3 else world.find_expert_action()
            assert action is not None
            result = world.step(action)
            if action.startswith("answer"):
                assert world.solved == (sympy.Integer(action.split()[1]) == solution) == (result.reward > 0)
            else:
                assert sympy.solve(_read(world), X) == [solution], (before, action)


def _read(world: Equations) -> sympy.Eq:
    factor, shift, right = world.equation
    return sympy.Eq(factor * X + shift, right)
