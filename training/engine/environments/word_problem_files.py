"""Files of word problems in GSM8K's public form, as tasks. No torch; nothing is downloaded.

A line is `{"question": …, "answer": …}`. The answer is a solution in words whose steps may carry their calculation, as
`48/2 = <<48/2=24>>24`, and whose last line is the final number after `####` (Cobbe et al. 2021, "Training Verifiers to
Solve Math Word Problems"). `RECKONER_WORD_PROBLEMS` names a file, of which every fifth problem is held out by a hash of
its question, or a folder with `train.jsonl` to learn from and `test.jsonl` to measure on.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from training.engine.environments.arithmetic import (
    STEP,
    Verdict,
    check_step,
    read_final_answer,
    read_number,
)
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Split, Task

VARIABLE = "RECKONER_WORD_PROBLEMS"
ENVIRONMENT = "gsm8k"
FILES: Mapping[Split, str] = {"train": "train.jsonl", "heldout": "test.jsonl"}
LARGEST = 64 * 1024 * 1024
LONGEST_QUESTION = 4_000
HELD_OUT_EVERY = 5
MOST_STEPS = 12


class Problem(NamedTuple):
    """`answer`: the final number as it is written. `steps`: the left sides of the solution's calculations, in order,
    each of another value."""

    question: str
    answer: str
    steps: tuple[str, ...]


def read_problem(line: str | bytes) -> Problem:
    """Raises ValueError that says what is wrong with the line."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(told, dict) or not all(isinstance(told.get(name), str) for name in ("question", "answer")):
        raise ValueError("needs the texts question and answer")
    question, solution = " ".join(told["question"].split()), told["answer"]
    if not 0 < len(question) <= LONGEST_QUESTION:
        raise ValueError(f"question: has {len(question)} characters; 1 to {LONGEST_QUESTION} are allowed")
    answer = read_final_answer(solution)
    if answer is None:
        raise ValueError("answer: has no line that begins with ####")
    if read_number(answer) is None:
        raise ValueError(f"answer: {answer[:40]!r} after #### is no number")
    return Problem(question, answer, _find_steps(solution))


def _find_steps(solution: str) -> tuple[str, ...]:
    """Those that are right, at most MOST_STEPS."""
    steps: dict[Any, str] = {}
    for text in STEP.findall(solution):
        check = check_step(text)
        left = text.rpartition("=")[0].strip()
        # A step such as <<5=5>> calculates nothing.
        calculates = any(sign in left[1:] for sign in "+-*/")
        if check.verdict is Verdict.EXACT and check.value is not None and calculates:
            steps.setdefault(check.value, left.replace(" ", ""))
    return tuple(steps.values())[:MOST_STEPS]


def as_task(problem: Problem, name: str) -> Task:
    """`facts` hold what a run needs: no file has to be there then."""
    count = len(problem.steps)
    return Task(
        id=name,
        environment=ENVIRONMENT,
        text=problem.question,
        facts={"answer": problem.answer, "steps": list(problem.steps)},
        domain="math",
        template=f"{count} step{'' if count == 1 else 's'}",
        level=1 if count <= 2 else 2 if count <= 4 else 3,
    )


def list_problems(split: Split) -> Sequence[Problem]:
    """Raises EnvironmentFault where the file is not named, not there, or not of this form."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise EnvironmentFault(
            f"{VARIABLE} is not set: give the path of a file in GSM8K's form, or of a folder with "
            f"{' and '.join(FILES.values())}"
        )
    place = Path(named)
    file = place / FILES[split] if place.is_dir() else place
    try:
        facts = file.stat()
    except OSError as error:
        raise EnvironmentFault(f"{VARIABLE}: {file} cannot be read: {error.strerror}") from error
    if facts.st_size > LARGEST:
        raise EnvironmentFault(f"{VARIABLE}: {file} has {facts.st_size:,} bytes, more than {LARGEST:,}")
    problems = _read_file(file, facts.st_mtime_ns, facts.st_size)
    if not place.is_dir():
        problems = [one for one in problems if _is_held_out(one) == (split == "heldout")]
    if not problems:
        raise EnvironmentFault(f"{VARIABLE}: {file} has no problem of the split {split}")
    return problems


@lru_cache(maxsize=4)
def _read_file(file: Path, changed: int, size: int) -> Sequence[Problem]:
    """Each question once. `changed` and `size` make a file that changed another one."""
    found: dict[str, Problem] = {}
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        problem = read_problem(line)
                    except ValueError as error:
                        raise EnvironmentFault(f"{VARIABLE}: {file}:{number}: {error}") from error
                    found.setdefault(problem.question, problem)
    except OSError as error:
        raise EnvironmentFault(f"{VARIABLE}: {file} cannot be read: {error.strerror}") from error
    return list(found.values())


def _is_held_out(problem: Problem) -> bool:
    return (
        int.from_bytes(hashlib.sha256(problem.question.encode(errors="surrogatepass")).digest()[:4]) % HELD_OUT_EVERY
        == 0
    )
