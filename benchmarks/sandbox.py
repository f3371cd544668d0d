"""The sandbox: what a call takes, HumanEval with its canonical solutions and cheats, and a model's samples twice.

    python -m benchmarks.sandbox [--quick] [--data DIR] [--threads N]

DIR holds `humaneval` and `codet_humaneval_samples` (tools/humaneval.py). Prints a row for each part; the last line is
one JSON object. Exits 1 when a bound is missed: every canonical solution passes, no cheat does, and the samples' pass
rates are the same the second time; 2 without the sandbox or the data.
"""

from __future__ import annotations

import argparse
import json
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

PROBLEMS, SAMPLES = 20, 20
SHORT = Limits(seconds=1, processes=1)  # a sleeping program is ended soon; none of these is meant to pass


@dataclass(frozen=True)
class Work:
    threads: int

    def map(self, use: Callable[[Any], Any], over: Iterable[Any]) -> list[Any]:
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(use, over))


def measure_calls(count: int) -> dict[str, float]:
    """Milliseconds of one call after another: an empty program of each language."""
    found = {}
    for language, code in (("python", "pass"), ("shell", ":")):
        seconds = [run_code(code, language).seconds for _ in range(count)]
        found[f"{language}_ms_p50"] = round(1000 * statistics.median(seconds), 1)
        found[f"{language}_ms_max"] = round(1000 * max(seconds), 1)
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

    calls = measure_calls(20 if options.quick else 100)
    print("one call:", ", ".join(f"{name} {value}" for name, value in calls.items()))
    passed, seconds = timed(lambda: check_all(work, problems))
    for name, count in passed.items():
        print(f"{name:20} {count:4} of {len(problems)} pass")
    print(f"{len(passed)} programs for each of {len(problems)} problems: {seconds} s")
    first, first_seconds = timed(lambda: check_samples(work, few, samples))
    second, second_seconds = timed(lambda: check_samples(work, few, samples))
    rates = [sum(row) / SAMPLES for row in first]
    print(f"pass rates of {len(few)} problems, {SAMPLES} samples each: {' '.join(f'{rate:.2f}' for rate in rates)}")
    print(f"mean {statistics.mean(rates):.4f}; {first_seconds} s, again {second_seconds} s")
    good = {
        "canonical": passed["canonical"] == len(problems),
        "cheats": all(count == 0 for name, count in passed.items() if name != "canonical"),
        "samples_twice_equal": first == second,
    }
    result = {
        "problems": len(problems),
        "passed": passed,
        "seconds": seconds,
        "samples": len(few) * SAMPLES,
        "samples_passed": [sum(map(sum, rows)) for rows in (first, second)],
        "pass_rates": rates,
        "samples_seconds": [first_seconds, second_seconds],
        "calls": calls,
        "good": good,
    }
    print(json.dumps(result))
    return 0 if all(good.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
