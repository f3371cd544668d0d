"""The sandbox: what a call takes, HumanEval with its canonical solutions and cheats, and a model's samples twice.

    python -m benchmarks.sandbox [--quick] [--data DIR] [--threads N]

DIR holds `humaneval` and `codet_humaneval_samples` (tools/humaneval.py). Prints a row for each part; the last line is
one JSON object. Exits 1 when a bound is missed: every canonical solution passes, no cheat does, and the samples' pass
rates are the same the second time; 2 without the sandbox or the data.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.canary import ensure_checked
from sandbox.errors import SandboxMissing
from sandbox.limits import Limits
from sandbox.run import run_code
from tools import humaneval
from tools.report import Report

PROBLEMS, SAMPLES = 20, 20
SHORT = Limits(seconds=1, processes=1)  # a sleeping program is ended soon; none of these is meant to pass


@dataclass(frozen=True)
class Work:
    threads: int

    def map(self, use: Callable[[Any], Any], over: Iterable[Any]) -> list[Any]:
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(use, over))


def measure_calls(count: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of one call after another, median and slowest: an empty program of each language."""
    found = {}
    for language, code in (("python", "pass"), ("shell", ":")):
        seconds = [run_code(code, language).seconds for _ in range(count)]
        found[language] = 1000 * statistics.median(seconds), 1000 * max(seconds)
    return found


def check_all(work: Work, problems: Sequence[humaneval.Problem]) -> dict[str, int]:
    """Program → how many of the problems it passes."""
    solved = work.map(lambda problem: problem.check(problem.prompt + problem.solution), problems)
    for problem, checked in zip(problems, solved, strict=True):
        if not checked.passed:
            print(f"{problem.task_id}: {checked.reason}: {checked.detail}")
    passed = {"canonical": sum(checked.passed for checked in solved)}
    for name, write in humaneval.CHEATS.items():
        passed[name] = sum(work.map(lambda problem, write=write: problem.check(write(problem), SHORT).passed, problems))
    return passed


def check_samples(work: Work, problems: Sequence[humaneval.Problem], samples: dict[str, list[str]]) -> list[list[bool]]:
    """For each problem, which of its samples pass."""
    pairs = [(problem, sample) for problem in problems for sample in samples[problem.task_id][:SAMPLES]]
    passed = work.map(lambda pair: pair[0].check(pair[1]).passed, pairs)
    return [passed[at : at + SAMPLES] for at in range(0, len(passed), SAMPLES)]


def timed(use: Callable[[], Any]) -> tuple[Any, float]:
    started = time.monotonic()
    return use(), round(time.monotonic() - started, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 problems, and the samples of 4")
    parser.add_argument("--data", type=Path, default=humaneval.DATA, help="folder of the real files")
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args(arguments)
    try:
        ensure_checked()
        problems = humaneval.read_problems(options.data)
        samples = humaneval.read_samples(problems, options.data)
    except (SandboxMissing, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    work, few = Work(options.threads), problems[: 4 if options.quick else PROBLEMS]
    if options.quick:
        problems = problems[::11][:16]

    report = Report("sandbox")
    calls = measure_calls(20 if options.quick else 100)
    told = "; ".join(f"{language} {calls[language][0]:.1f}, {calls[language][1]:.1f}" for language in calls)
    report.add("an empty program, ms: median, slowest", bound="", figure=told, passed=True)
    passed, seconds = timed(lambda: check_all(work, problems))
    for name, count in passed.items():
        wanted = len(problems) if name == "canonical" else 0
        figure = f"{count} of {len(problems)}"
        report.add(f"HumanEval, {name}: pass", bound=str(wanted), figure=figure, passed=count == wanted)
    report.add(f"{len(passed)} programs for each problem, s", bound="", figure=seconds, passed=True)
    first, first_seconds = timed(lambda: check_samples(work, few, samples))
    second, second_seconds = timed(lambda: check_samples(work, few, samples))
    rates = [sum(row) / SAMPLES for row in first]
    report.add(
        f"a model's {SAMPLES} samples of each of {len(few)} problems, twice: verdicts that differ",
        bound="0",
        figure=sum(a != b for one, two in zip(first, second, strict=True) for a, b in zip(one, two, strict=True)),
        passed=first == second,
    )
    figure = f"{statistics.mean(rates):.4f}; {first_seconds} s, again {second_seconds} s"
    report.add("their mean pass rate", bound="", figure=figure, passed=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
