"""Linear equations, solved step by step: name the kind, take away the number, divide, state the answer. No torch.

Each kind of step pays once, and only for progress: 1.5 for the right kind of equation and 0.5 for an unclear one, 1 for
setting up the equation of a word problem, 2 for the step that takes the number from x's side and 2 for the division
that leaves x alone (1 of each for a step that only comes nearer), and 3 for the right answer. So 3x + 7 = 16 pays 8.5.
Nothing is paid for a step back, or for doing again what was undone. An answer ends the episode. Numbers stay whole, but
for the answer of an equation that somebody wrote: a division that would leave a fraction elsewhere changes nothing.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import ClassVar

from training.engine.environments.equation_texts import Equation, in_words, read_equation
from training.engine.environments.protocol import BaseEnvironment, Checkpoint
from training.engine.environments.tasks import Split, Task

IDENTIFIED, UNCLEAR, SET_UP, MOVED, DIVIDED, ANSWERED, NEARER = 1.5, 0.5, 1.0, 2.0, 2.0, 3.0, 1.0
TEMPLATES = ("shift", "multiple", "both", "words")
"""x + b = c; ax = c; ax + b = c; and the last one told in words."""
LEVELS = {"shift": 1, "multiple": 1, "both": 2, "words": 3, "collect": 3}
"""`collect`, which is read and never drawn: brackets, fractions, x on both sides or a negative number of it."""
LARGEST_FACTOR, LARGEST_SHIFT, LARGEST_ANSWER = 9, 20, 12


class Equations(BaseEnvironment):
    """One equation. The numbers on offer are those in it and some others, in an order dealt anew at every step."""

    name: ClassVar[str] = "equations"
    does: ClassVar[str] = "Linear equations, solved in steps that are each checked."
    max_steps: ClassVar[int] = 8
    most_reward: ClassVar[float] = IDENTIFIED + SET_UP + MOVED + DIVIDED + ANSWERED

    equation: Equation
    is_set_up: bool
    said: list[str]
    paid: dict[str, float]
    answer: Fraction | None

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """A fifth of all equations is held out, so that none is in both splits."""
        rng = random.Random(f"equations/{split}/{number}")  # noqa: S311 - no secret
        template = TEMPLATES[number % len(TEMPLATES)]
        while True:
            factor = 1 if template == "shift" else rng.randint(2, LARGEST_FACTOR)
            shift = 0 if template == "multiple" else rng.choice([-1, 1]) * rng.randint(1, LARGEST_SHIFT)
            answer = rng.randint(2, LARGEST_ANSWER)
            right = factor * answer + shift
            if right > 0 and (_is_held_out(factor, shift, answer) == (split == "heldout")):
                break
        equation = Equation(factor, shift, right)
        return _task_of(f"equations-{split}-{number}", equation, template)

    @classmethod
    def read_problem(cls, text: str) -> Task:
        """An equation such as `Solve for x: 3x + 7 = 16`, or `3 times a number plus 7 is 16`. Raises ValueError."""
        equation, written, is_set_up, words = read_equation(text)
        if not is_set_up:
            template = "words" if words else "collect"
        elif equation.factor == 1:
            template = "shift"
        else:
            template = "both" if equation.shift else "multiple"
        name = f"equations-{(str(equation) if words else written).replace(' ', '')}"
        return _task_of(f"{name}-words" if words else name, equation, template, f"Solve {written}" if not words else "")

    def begin(self) -> None:
        facts = self.task.facts
        try:
            factor, shift, right = (int(facts[name]) for name in ("factor", "shift", "right"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"task {self.task.id}: facts: factor, shift and right must be whole numbers") from error
        if factor == 0:
            raise ValueError(f"task {self.task.id}: facts.factor: must not be 0")
        self.equation = Equation(factor, shift, right)
        self.is_set_up = not facts.get("words", False)
        self.said, self.paid, self.answer = [], {}, None

    def observe(self) -> str:
        now = str(self.equation) if self.is_set_up else "not set up"
        return f"{self.task.text}. Now: {now}. Done: {', '.join(self.said[-3:]) or 'nothing'}"

    def list_actions(self) -> tuple[str, ...]:
        draw = self.random
        offered = ["identify linear", "identify quadratic"]
        if not self.is_set_up:
            facts = self.equation
            other_sign = {"shift": -facts.shift} if facts.shift else {"right": -facts.right or 1}
            wrong = [facts._replace(**other_sign), facts._replace(factor=facts.factor + 1)]
            offered += [f"set up {one}" for one in (facts, *wrong)]
            draw.shuffle(offered)
            return tuple(offered)
        factor, shift, right = self.equation
        numbers = sorted({draw.randint(1, LARGEST_SHIFT), factor, abs(shift)} - {0})
        offered += [f"{word} {n}" for word in ("subtract", "add") for n in numbers]
        offered += [f"divide {n}" for n in numbers if n > 1]
        offered += [f"answer {n}" for n in sorted({factor, right, draw.randint(1, LARGEST_ANSWER)})]
        draw.shuffle(offered)
        return tuple(offered)

    def act(self, action: str) -> float:
        self.said.append(action)
        word, _, rest = action.partition(" ")
        if word == "identify":
            return self._pay(word, IDENTIFIED if rest == "linear" else UNCLEAR)
        if word == "set":
            self.is_set_up = rest == f"up {self.equation}"
            return self._pay(word, SET_UP if self.is_set_up else 0.0)
        if word == "answer":
            self.answer, self.done = Fraction(rest), True
            return self._pay(word, ANSWERED if self.equation.is_solved_by(self.answer) else 0.0)
        return self._divide(int(rest)) if word == "divide" else self._move(int(rest) if word == "add" else -int(rest))

    def _move(self, number: int) -> float:
        before = abs(self.equation.shift)
        self.equation = self.equation.add(number)
        after = abs(self.equation.shift)
        return self._pay("move", MOVED if after == 0 < before else NEARER if after < before else 0.0)

    def _divide(self, number: int) -> float:
        before, self.equation = self.equation, self.equation.divide(number)
        if self.equation == before or before.shift:
            return 0.0
        return self._pay("divide", DIVIDED if self.equation.factor == 1 else NEARER)

    def _pay(self, kind: str, worth: float) -> float:
        """What the step earns beyond what its kind was paid already."""
        already = self.paid.get(kind, 0.0)
        self.paid[kind] = max(already, worth)
        return self.paid[kind] - already

    def checkpoints(self) -> list[Checkpoint]:
        right = self.answer is not None and self.equation.is_solved_by(self.answer)
        return [Checkpoint("the answer is right", 1, right)]

    def find_expert_action(self) -> str | None:
        shift, factor = self.equation.shift, self.equation.factor
        if "identify" not in self.paid:
            return "identify linear"
        if not self.is_set_up:
            return f"set up {self.equation}"
        if shift:
            return f"subtract {shift}" if shift > 0 else f"add {-shift}"
        return f"divide {factor}" if factor != 1 else f"answer {self.equation.right}"


def _task_of(name: str, equation: Equation, template: str, text: str = "") -> Task:
    """`text`: what the agent is told, without one what the template makes of the equation."""
    factor, shift, right = equation
    return Task(
        id=name,
        environment=Equations.name,
        text=text or (in_words(equation) if template == "words" else f"Solve {equation}"),
        facts={"factor": factor, "shift": shift, "right": right, "words": template in ("words", "collect")},
        domain="math",
        template=template,
        level=LEVELS[template],
    )


def _is_held_out(factor: int, shift: int, answer: int) -> bool:
    """A fifth of all equations, whatever draws them."""
    return (factor * 31 + shift * 17 + answer * 7) % 5 == 0
