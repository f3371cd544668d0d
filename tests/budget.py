"""The budget of `make test`: `--budget SECONDS` fails a run whose tests together took longer (CONTRIBUTING, "Tests").

Workers' seconds are added up, setting up included. A fixed piece of work tells how fast the machine is, and a slow one
is allowed more. The Makefile's budget has a margin of a third for other work on the machine.
"""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

REFERENCE_SECONDS = 0.03
"""What `time_work` took where the budget in the Makefile was set."""
NAMED = 15


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
    """Returns the worker seconds that this machine may take, never fewer than the budget."""
    return budget * max(1.0, measured / REFERENCE_SECONDS)


def longest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Returns the tests that took longest, by their ids."""
    return sorted(seconds.items(), key=lambda row: -row[1])[:NAMED]


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
        self.seconds[report.nodeid] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.allowed = allow(self.budget, time_work())
        if self.taken > self.allowed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"Worker seconds: {self.taken:.0f} of {self.allowed:.0f}.")
        if self.taken > self.allowed:
            terminalreporter.section("over the budget: mark slow tests `slow`, or find the time", red=True)
            for nodeid, seconds in longest(self.seconds):
                terminalreporter.write_line(f"{seconds:7.1f} s  {nodeid}")
