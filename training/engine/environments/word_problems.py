"""Word problems in GSM8K's form: calculate, step by step, and answer with a number. No torch.

What the solution calculates pays 1 in all, in equal parts, each once, in any order and however it is written. The right
final number pays 1; without any calculation in the solution it pays 2. The grader compares the final numbers exactly
(`arithmetic.is_same_answer`); nothing that a model wrote is evaluated as code.

A model that scores options is offered the solution's next calculations among wrong ones that are made of them, so it
has an easier task than one that writes its calls freely and is offered nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from training.engine.environments.arithmetic import NotArithmetic, calculate, is_same_answer, read_number
from training.engine.environments.protocol import BaseEnvironment, Checkpoint, EnvironmentFault, Tool
from training.engine.environments.tasks import Split, Task
from training.engine.environments.word_problem_files import ENVIRONMENT, as_task, list_problems

STEPS, ANSWERED = 1.0, 1.0
WRONG = 6
"""Wrong calculations that are offered beside the right ones."""
SHOWN = 4
"""Of what was calculated, the last so many results are read."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


class WordProblems(BaseEnvironment):
    """One problem."""

    name: ClassVar[str] = ENVIRONMENT
    does: ClassVar[str] = "Word problems in GSM8K's form, from a file of your own: calculations, and a final number."
    max_steps: ClassVar[int] = 16
    most_reward: ClassVar[float] = STEPS + ANSWERED

    solution: Mapping[Fraction, str]
    """The solution's calculations by their value."""
    right: str
    calculations: list[tuple[str, Fraction]]
    paid: set[Fraction]
    answer: str | None

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """Problem `number` of the file. Raises EnvironmentFault without a file, and where it has fewer."""
        problems = list_problems(split)
        if number >= len(problems):
            raise EnvironmentFault(f"there are {len(problems)} problems of the split {split}, and none number {number}")
        return as_task(problems[number], f"{ENVIRONMENT}-{split}-{number}")

    @classmethod
    def count_tasks(cls, split: Split) -> int | None:
        return len(list_problems(split))

    @classmethod
    def read_problem(cls, text: str) -> Task:
        raise ValueError(
            'a question alone cannot be graded: give the facts {"answer": "42", "steps": ["6*7"]}, and the question as '
            "text"
        )

    def begin(self) -> None:
        facts = self.task.facts
        right, steps = facts.get("answer"), facts.get("steps", [])
        if not isinstance(right, str) or read_number(right) is None:
            raise ValueError(f"task {self.task.id}: facts.answer: must be a number, as a text")
        if not isinstance(steps, list) or not all(isinstance(one, str) for one in steps):
            raise ValueError(f"task {self.task.id}: facts.steps: must be a list of calculations")
        try:
            self.solution = {calculate(one): one for one in steps}
        except NotArithmetic as error:
            raise ValueError(f"task {self.task.id}: facts.steps: {error}") from error
        self.right, self.calculations, self.paid, self.answer = right, [], set(), None

    def observe(self) -> str:
        done = "; ".join(f"{text} = {write_number(value)}" for text, value in self.calculations[-SHOWN:])
        return f"{self.task.text} Done: {done or 'nothing'}"

    def list_actions(self) -> tuple[str, ...]:
        open_steps = [text for value, text in self.solution.items() if value not in self.paid]
        offered = {f"calculate {text}" for text in open_steps[:2]}
        for text in self._make_wrong(list(self.solution.values())):
            offered.add(f"calculate {text}")
        numbers = [write_number(value) for _, value in self.calculations[-SHOWN:]]
        numbers += self.random.sample(known := sorted(set(_NUMBER.findall(self.task.text))), min(2, len(known)))
        value = read_number(self.right)
        assert value is not None
        if value not in self.solution:
            numbers += [write_number(value), write_number(value + self.random.choice([-1, 1, 2, 10]))]
        offered |= {f"answer {number}" for number in numbers} or {"answer 0"}
        actions = sorted(offered)
        self.random.shuffle(actions)
        return tuple(actions)

    def _make_wrong(self, right: list[str]) -> list[str]:
        """The calculations with one sign or number exchanged, none of them worth what a right one is."""
        numbers = sorted({*_NUMBER.findall(self.task.text), *(one for text in right for one in _NUMBER.findall(text))})
        made: list[str] = []
        for _ in range(4 * WRONG if right else 0):
            text = self.random.choice(right)
            places = [place for place, sign in enumerate(text) if sign in "+-*/" and place]
            if places and self.random.random() < 0.5:
                place = self.random.choice(places)
                text = text[:place] + self.random.choice("+-*/") + text[place + 1 :]
            elif found := list(_NUMBER.finditer(text)):
                match = self.random.choice(found)
                text = text[: match.start()] + self.random.choice(numbers) + text[match.end() :]
            value = _value_of(text)
            if value is not None and value not in self.solution and text not in made:
                made.append(text)
        return made[:WRONG]

    def is_valid(self, action: str) -> bool:
        """Any calculation and any number, offered or not."""
        word, _, rest = action.partition(" ")
        return (word == "calculate" and _value_of(rest) is not None) or (
            word == "answer" and read_number(rest) is not None
        )

    def act(self, action: str) -> float:
        word, _, rest = action.partition(" ")
        if word == "answer":
            self.answer, self.done = rest, True
            return (ANSWERED if self.solution else STEPS + ANSWERED) if self.solved else 0.0
        value = _value_of(rest)
        assert value is not None
        self.calculations.append((rest, value))
        if value not in self.solution or value in self.paid:
            return 0.0
        self.paid.add(value)
        return STEPS / len(self.solution)

    def checkpoints(self) -> list[Checkpoint]:
        return [Checkpoint("the final number is right", 1, is_same_answer(self.answer, self.right))]

    def find_expert_action(self) -> str | None:
        left = [text for value, text in self.solution.items() if value not in self.paid]
        value = read_number(self.right)
        assert value is not None
        return f"calculate {left[0]}" if left else f"answer {write_number(value)}"

    def tools(self) -> list[Tool]:
        def text(name: str, says: str) -> dict[str, Any]:
            return {"type": "object", "properties": {name: {"type": "string", "description": says}}, "required": [name]}

        return [
            Tool("calculate", "Calculates with + - * / and parentheses.", text("expression", "such as 48/2")),
            Tool("answer", "Gives the final answer, and ends the problem.", text("number", "the number alone")),
        ]

    def read_call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        fields = {"calculate": "expression", "answer": "number"}
        if tool not in fields:
            raise ValueError(f"there is no tool {tool!r}; there is {', '.join(fields)}")
        value = arguments.get(fields[tool])
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(f"{fields[tool]}: a text is missing")
        return f"{tool} {str(value).strip()}"


def write_number(value: Fraction) -> str:
    """As people write it, 12.5 rather than 25/2 where the decimals end within six places."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = value * 10**6
    return f"{float(value):.6f}".rstrip("0") if scaled.denominator == 1 and abs(value) < 10**9 else str(value)


def _value_of(text: str) -> Fraction | None:
    """None of what is no calculation."""
    try:
        return calculate(text)
    except NotArithmetic:
        return None
