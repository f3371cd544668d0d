"""`check_program`: whether a function passes its tests, when whoever wrote it would rather cheat.

The candidate and its tests run in a box each. Where a test calls the function, its arguments go to the candidate's box
as plain data, and plain data come back (`inside/channel.py`). The verdict is the exit code of the other box. So
leaving early, printing what a passed test prints, patching `assert` or the builtins, and results with an `__eq__` of
their own gain nothing: the only way to pass is to answer every call as the tests expect, in time.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox.canary import ensure_checked
from sandbox.errors import SandboxError, TestsInvalid
from sandbox.finished import Finished, finish
from sandbox.limits import MIB, Limits
from sandbox.machine import find_machine
from sandbox.process import Program, watch
from sandbox.unchecked import MAIN, fit, interpreter

# One process: a candidate has no reason to start another, and what it leaves running could answer in its place.
PROGRAM_LIMITS = Limits(seconds=20, cpu_seconds=10, memory_bytes=512 * MIB, processes=1)
SIGNALLED = 128
PASSED, FAILED, GONE, INVALID = 0, 10, 11, 12  # inside/tester.py has the same
INSIDE = Path(__file__).parent / "inside"
MOST_DETAIL = 300

Reason = Literal["passed", "failed", "ended", "limit"]


@dataclass(frozen=True, slots=True)
class Checked:
    """reason: every test passed; one failed; the program ended or gave no usable answer; a limit was broken.

    detail: one line for people, empty when it passed. seconds: on the clock, both boxes.
    """

    reason: Reason
    detail: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.reason == "passed"


def check_program(
    candidate: str, tests: str, entry_point: str, *, helpers: str = "", limits: Limits = PROGRAM_LIMITS
) -> Checked:
    """Runs `tests` against the function `entry_point` of the Python source `candidate`.

    `tests` either defines `check(candidate)`, as HumanEval's do, or asserts at its top level, as MBPP's do. `helpers`
    is source that the tests need and the candidate must not replace: for HumanEval, the prompt. Arguments and results
    are passed by value and are plain data; a result of another type fails. Raises TestsInvalid when the tests do not
    run or never call the function, SandboxMissing or SandboxError when the sandbox fails.
    """
    if not entry_point.isidentifier():
        raise TestsInvalid(f"{entry_point!r} is not the name of a function")
    ensure_checked()
    machine = find_machine()
    python = interpreter(machine, "python")
    shared = {"channel.py": _read_inside("channel.py")}
    asks = {MAIN["python"]: _read_inside("tester.py"), "helpers.py": _as_bytes(helpers), "tests.py": _as_bytes(tests)}
    answers = {MAIN["python"]: _read_inside("candidate.py"), "program.py": _as_bytes(candidate)}
    if not fit(answers | shared, limits):
        return Checked("limit", f"the program is larger than {limits.disk_bytes} bytes", 0.0)
    with ExitStack() as boxes:
        # Closed once each box holds its end: while we held one too, neither would notice that the other is gone.
        with ExitStack() as pipes:
            questions_read, questions_write = _open_pipe(pipes)
            answers_read, answers_write = _open_pipe(pipes)
            candidate_box = boxes.enter_context(
                Program(
                    machine, python, limits=limits, files=answers | shared, stdin=questions_read, stdout=answers_write
                )
            )
            tests_box = boxes.enter_context(
                Program(
                    machine,
                    [*python, entry_point],
                    limits=limits,
                    files=asks | shared,
                    stdin=answers_read,
                    stdout=questions_write,
                )
            )
        watch(tests_box, candidate_box)
        return _conclude(finish(tests_box), finish(candidate_box))


def _conclude(tests: Finished, candidate: Finished) -> Checked:
    seconds = max(tests.seconds, candidate.seconds)
    for ended in (candidate, tests):
        if ended.timed_out or ended.out_of_memory or ended.truncated:
            return Checked("limit", (ended.failure or "")[:MOST_DETAIL], seconds)
    said = tests.last_line[:MOST_DETAIL]
    if tests.exit_code == PASSED:
        return Checked("passed", "", seconds)
    if tests.exit_code == FAILED:
        return Checked("failed", said, seconds)
    if tests.exit_code == GONE:
        why = candidate.last_line
        return Checked("ended", (f"{said}: {why}" if why else said)[:MOST_DETAIL], seconds)
    if tests.exit_code == INVALID:
        raise TestsInvalid(said)
    if tests.exit_code > SIGNALLED:
        return Checked("limit", f"the tests' process {tests.failure}"[:MOST_DETAIL], seconds)
    raise SandboxError(f"the tests' process {tests.failure}")


def _open_pipe(given: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    given.callback(os.close, read)
    given.callback(os.close, write)
    return read, write


def _read_inside(name: str) -> bytes:
    return (INSIDE / name).read_bytes()


def _as_bytes(source: str) -> bytes:
    return source.encode("utf-8", errors="surrogatepass")
