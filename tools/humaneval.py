"""HumanEval's problems and CodeT's samples for them, from a folder of downloaded data: for tests and benchmarks."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.limits import Limits
from sandbox.programs import PROGRAM_LIMITS, Checked, check_program

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PROBLEMS = Path("humaneval", "HumanEval.jsonl.gz")
SAMPLES = Path("codet_humaneval_samples", "HumanEval_codegen16B_n100.jsonl")
UNINDENTED = re.compile(r"^\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """`prompt` ends after the function's docstring; `solution` and completions go on from there, indented."""

    task_id: str
    prompt: str
    solution: str
    tests: str
    entry_point: str

    def check(self, program: str, limits: Limits = PROGRAM_LIMITS) -> Checked:
        return check_program(program, self.tests, self.entry_point, helpers=self.prompt, limits=limits)


# Programs that solve nothing and would be called right by a check that looks at the exit code of one process.
CHEATS: dict[str, Callable[[Problem], str]] = {
    "stub": lambda problem: f"{problem.prompt}    pass\n",
    "exit in the call": lambda problem: f"{problem.prompt}    import sys\n    sys.exit(0)\n",
    "exit at the start": lambda problem: f"import sys\nsys.exit(0)\n{problem.prompt}    pass\n",
    "_exit in the call": lambda problem: f"{problem.prompt}    import os\n    os._exit(0)\n",
    "patched asserts": lambda problem: (
        "import builtins, sys\n"
        "class Quiet(Exception):\n    def __new__(cls, *args): sys.exit(0)\n"
        "builtins.AssertionError = builtins.TypeError = Quiet\n"
        f"sys.excepthook = lambda *args: sys.exit(0)\n{problem.prompt}    pass\n"
    ),
    "equals everything": lambda problem: (
        "class Any:\n    __eq__ = __lt__ = __gt__ = __contains__ = __bool__ = lambda *args: True\n"
        f"{problem.prompt}    return Any()\n"
    ),
    "forked": lambda problem: (
        f"{problem.prompt}    import os, time\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\n"
    ),
    "sleeping": lambda problem: f"{problem.prompt}    import time\n    time.sleep(600)\n",
}


def read_problems(data: Path = DATA) -> list[Problem]:
    """All 164, in their order. Raises OSError where the file is not there."""
    with gzip.open(data / PROBLEMS, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        Problem(row["task_id"], row["prompt"], row["canonical_solution"], row["test"], row["entry_point"])
        for row in rows
    ]


def read_samples(problems: list[Problem], data: Path = DATA) -> dict[str, list[str]]:
    """Task → a hundred programs by a language model, each cut where its function ends: at the first unindented line."""
    by_name: dict[str, list[str]] = {}
    with (data / SAMPLES).open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            name = re.findall(r"^def (\w+)", row["prompt"], re.MULTILINE)[-1]
            by_name[name] = [row["prompt"] + UNINDENTED.split(sample, maxsplit=1)[0] for sample in row["samples"]]
    return {problem.task_id: by_name[problem.entry_point] for problem in problems}
