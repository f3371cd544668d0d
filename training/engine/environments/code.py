"""A small function in Python: think of the edge case, write it part by part, test it, mend what fails. No torch.

The parts of the program are chosen among lines, some of which are wrong. `test` runs it in the sandbox against cases,
and says how many pass and what the first failing one gave; a program is run once, however often it is met. Paid: 0.5
for the edge case that matters, 2 for the share of cases that pass, as far as it is higher than ever before, and 1 for
submitting a program that passes all of them, which ends the episode. A sandbox that fails is a fault, never a failed
test.
"""

from __future__ import annotations

import ast
import json
import random
from functools import lru_cache
from typing import ClassVar, NamedTuple

from sandbox.errors import SandboxError
from sandbox.run import run_code
from training.engine.environments.protocol import BaseEnvironment, Checkpoint, EnvironmentFault
from training.engine.environments.tasks import Split, Task

EDGE, TESTS, SUBMITTED = 0.5, 2.0, 1.0
SLOTS = ("start", "loop", "result")
VERBS = {"start": "write", "loop": "add", "result": "return"}
EDGES = ("empty list", "sorted list", "very long list")
LARGEST = 7
RUNNER = """
import json, sys
{program}
for given, wanted in json.loads(sys.stdin.read()):
    try:
        print(json.dumps(solve(given)), flush=True)
    except Exception as error:
        print(json.dumps(type(error).__name__), flush=True)
"""


class Family(NamedTuple):
    """Functions of one kind. Of each slot the first line is right; `{k}` and `{j}` are numbers of the task."""

    asks: str
    start: tuple[str, ...]
    loop: tuple[str, ...]
    result: tuple[str, ...]

    def lines(self, slot: str, k: int, j: int) -> list[str]:
        return [line.format(k=k, j=j) for line in getattr(self, slot)]


FAMILIES = {
    "sum": Family(
        "the sum of the numbers that {k} divides",
        ("found = 0", "found = 1"),
        (
            "if n % {k} == 0: found += n",
            "if n % {j} == 0: found += n",
            "if (n % {k} == 0) == True: found += n",
            "if n % {k} == 0: found += 1",
        ),
        ("found", "found - 1"),
    ),
    "count": Family(
        "how many numbers are above {k}",
        ("found = 0", "found = {k}"),
        ("if n > {k}: found += 1", "if n >= {k}: found += 1", "if n > {j}: found += 1", "if n > {k}: found += n"),
        ("found", "len(found)"),
    ),
    "list": Family(
        "the numbers below {k}, doubled",
        ("found = []", "found = 0"),
        (
            "if n < {k}: found.append(2 * n)",
            "if n < {k}: found.append(n)",
            "if n < {j}: found.append(2 * n)",
            "if (n < {k}) == True: found.append(2 * n)",
        ),
        ("found", "found[0]"),
    ),
}


class Code(BaseEnvironment):
    """One function of a list of numbers."""

    name: ClassVar[str] = "code"
    does: ClassVar[str] = "A small Python function, written part by part and tested in the sandbox."
    max_steps: ClassVar[int] = 9
    most_reward: ClassVar[float] = EDGE + TESTS + SUBMITTED

    program: dict[str, str]
    tests_say: str
    best: float
    thought: bool
    submitted: bool
    tested: bool

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """A pair of numbers belongs to one split."""
        rng = random.Random(f"code/{split}/{number}")  # noqa: S311 - reproducible
        name = tuple(FAMILIES)[number % len(FAMILIES)]
        while True:
            k, j = rng.sample(range(2, LARGEST + 1), 2)
            if ((k + 2 * j) % 4 == 0) == (split == "heldout"):
                break
        return Task(
            id=f"code-{split}-{number}",
            environment=cls.name,
            text=f"Return {FAMILIES[name].asks.format(k=k)}",
            facts={"family": name, "k": k, "j": j},
            domain="code",
            template=name,
            level=tuple(FAMILIES).index(name) + 1,
        )

    def begin(self) -> None:
        facts = self.task.facts
        try:
            family, k, j = FAMILIES[facts["family"]], int(facts["k"]), int(facts["j"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"task {self.task.id}: facts: family ({', '.join(FAMILIES)}), k and j") from error
        self.lines = {slot: family.lines(slot, k, j) for slot in SLOTS}
        self.program, self.tests_say, self.best = {}, "not tested", 0.0
        self.thought, self.submitted, self.tested = False, False, False

    def observe(self) -> str:
        written = "; ".join(f"{slot}: {self.program[slot]}" for slot in SLOTS if slot in self.program)
        return f"{self.task.text}. Program: {written or 'none'}. Tests: {self.tests_say}."

    def list_actions(self) -> tuple[str, ...]:
        offered = ["test", "submit"]
        if not self.thought:
            offered += [f"analyse {edge}" for edge in EDGES]
        empty = next((slot for slot in SLOTS if slot not in self.program), None)
        for slot in SLOTS:
            if slot == empty:
                offered += [f"{VERBS[slot]} {line}" for line in self.lines[slot]]
            elif empty is None and self.tested:
                others = [line for line in self.lines[slot] if line != self.program[slot]]
                offered += [f"debug {slot}: {line}" for line in others]
        self.random.shuffle(offered)
        return tuple(offered)

    def act(self, action: str) -> float:
        word, _, rest = action.partition(" ")
        if word == "analyse":
            self.thought = True
            return EDGE if rest == EDGES[0] else 0.0
        if word == "test":
            return self._test()
        if word == "submit":
            self.submitted = self.done = True
            return SUBMITTED if self.solved else 0.0
        if word == "debug":
            slot, _, line = rest.partition(": ")
            self.program[slot] = line
        else:
            self.program[next(slot for slot, verb in VERBS.items() if verb == word)] = rest
        self.tests_say, self.tested = "not tested", False
        return 0.0

    def checkpoints(self) -> list[Checkpoint]:
        passed, count, _ = self._outcome()
        return [
            Checkpoint("some cases pass", 1, passed > 0),
            Checkpoint("all cases pass", 2, passed == count),
            Checkpoint("the program is submitted", 1, self.submitted),
        ]

    def components(self) -> dict[str, float | None]:
        """`tests`: the share of cases that pass. `efficiency`: 1 for the fewest steps, 0 for the most. `style`: 1 where
        nothing is compared with True or False. None before the program is whole."""
        if len(self.program) < len(SLOTS):
            return {"tests": None, "efficiency": None, "style": None}
        passed, count, _ = self._outcome()
        fewest = len(SLOTS) + 1
        efficiency = 1 - (self.steps - fewest) / (self.max_steps - fewest)
        style = float(not compares_with_truth(source_of(self.program)))
        return {"tests": passed / count, "efficiency": min(1.0, max(0.0, efficiency)), "style": style}

    def find_expert_action(self) -> str | None:
        if not self.thought:
            return f"analyse {EDGES[0]}"
        empty = next((slot for slot in SLOTS if slot not in self.program), None)
        if empty is not None:
            return f"{VERBS[empty]} {self.lines[empty][0]}"
        if not self.tested:
            return "test"
        if self.tests_say.startswith("all"):
            return "submit"
        wrong = next(slot for slot in SLOTS if self.program[slot] != self.lines[slot][0])
        return f"debug {wrong}: {self.lines[wrong][0]}"

    def _test(self) -> float:
        passed, count, fault = self._outcome()
        self.tested = True
        self.tests_say = "all pass" if passed == count else f"{passed} of {count} pass, {fault}"
        earned = max(0.0, passed / count - self.best) * TESTS
        self.best = max(self.best, passed / count)
        return earned

    def _outcome(self) -> tuple[int, int, str]:
        """Cases that pass, cases, and what the first failing one gave. Raises EnvironmentFault."""
        facts = self.task.facts
        cases = cases_of(str(facts["family"]), int(facts["k"]))
        if len(self.program) < len(SLOTS):
            return 0, len(cases), "the program is not whole"
        try:
            told = run_program(source_of(self.program), json.dumps(cases))
        except SandboxError as error:
            raise EnvironmentFault(f"the sandbox failed: {error}") from error
        right = [got == wanted for got, (_, wanted) in zip(told, cases, strict=False)]
        failing = next((place for place, passes in enumerate(right) if not passes), len(right))
        if failing == len(cases):
            return len(cases), len(cases), ""
        got = json.dumps(told[failing]) if failing < len(told) else "nothing"
        return sum(right), len(cases), f"{cases[failing][0]} gave {got}"


def source_of(program: dict[str, str]) -> str:
    start, loop, result = (program[slot] for slot in SLOTS)
    return f"def solve(numbers):\n    {start}\n    for n in numbers:\n        {loop}\n    return {result}"


def cases_of(family: str, k: int) -> list[tuple[list[int], object]]:
    """The empty list first, then the numbers around `k`; with what is right for each."""
    given = [[], [k, k + 1, 2 * k], [1, k - 1, k], [3 * k, k * k, 1, 5], [2 * k, 2 * k + 1, 0]]
    return [(numbers, _right(family, numbers, k)) for numbers in given]


def _right(family: str, numbers: list[int], k: int) -> object:
    if family == "sum":
        return sum(n for n in numbers if n % k == 0)
    if family == "count":
        return sum(n > k for n in numbers)
    return [2 * n for n in numbers if n < k]


@lru_cache(maxsize=4096)
def run_program(source: str, cases: str) -> list[object]:
    """What the function returns for each case, or the name of its error; fewer where it ended before. The lines are
    ours, so no program cheats. Raises SandboxError."""
    ended = run_code(RUNNER.format(program=source), stdin=cases)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def compares_with_truth(source: str) -> bool:
    """Whether something is compared with True or False."""
    compared = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare))
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, bool) for node in compared for one in node.comparators
    )
