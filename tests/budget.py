"""The budget of `make test`: `--budget SECONDS` fails a run whose tests together took more (CONTRIBUTING, "Tests").

Processor seconds of the workers and of the programs that they started are added up, setting up included. So other work
on the machine changes little, and waiting nothing. A fixed piece of work tells how fast the processor is, and a slow
one is allowed more.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator

import pytest

REFERENCE_SECONDS = 0.03
"""What `time_work` took where the budget in the Makefile was set."""
NAMED = 15


def read_processor() -> float:
    """Returns the seconds of this process, and of its children that have ended."""
    return sum(os.times()[:4])


def time_work() -> float:
    """Returns the processor seconds of a fixed piece of plain Python, the least of five times."""

    def work() -> float:
        began = time.process_time()
        table: dict[str, int] = {}
        for number in range(100_000):
            key = str(number % 5_000)
            table[key] = table.get(key, 0) + number
        return time.process_time() - began

    return min(work() for _ in range(5))


def allow(budget: float, measured: float) -> float:
    """Returns the seconds that this machine may take, never fewer than the budget."""
    return budget * max(1.0, measured / REFERENCE_SECONDS)


def longest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Returns the tests that took most, by their ids."""
    return sorted(seconds.items(), key=lambda row: -row[1])[:NAMED]


class Meter:
    """A plugin of the processes that run tests: each report has what its phase took, as `processor_seconds`."""

    def __init__(self) -> None:
        self.last = read_processor()

    def pytest_collection_finish(self) -> None:
        self.last = read_processor()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        before, self.last = self.last, read_processor()
        report.processor_seconds = self.last - before
        return report


class Budget:
    """A plugin of the process that hears all reports, also those of xdist's workers."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.seconds: dict[str, float] = defaultdict(float)
        self.allowed = 0.0

    @property
    def taken(self) -> float:
        return sum(self.seconds.values())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += getattr(report, "processor_seconds", 0.0)  # a worker that died reports none

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.allowed = allow(self.budget, time_work())
        if self.taken > self.allowed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"Processor seconds of the tests: {self.taken:.0f} of {self.allowed:.0f}.")
        if self.taken > self.allowed:
            terminalreporter.section("over the budget: mark slow tests `slow`, or find the time", red=True)
            for nodeid, seconds in longest(self.seconds):
                terminalreporter.write_line(f"{seconds:7.1f} s  {nodeid}")
