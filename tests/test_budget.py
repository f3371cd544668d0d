"""The budget of `make test`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.budget import REFERENCE_SECONDS, Budget, allow, longest, time_work


def finish(budget: float, *seconds: float, status: pytest.ExitCode = pytest.ExitCode.OK) -> tuple[Budget, int]:
    """The plugin after tests that took `seconds` each, and the session's exit status."""
    plugin = Budget(budget)
    for number, duration in enumerate(seconds):
        for part in (0.25, 0.75):  # setting up, and the test itself
            plugin.pytest_runtest_logreport(SimpleNamespace(nodeid=f"test_{number}", processor_seconds=duration * part))
    session = SimpleNamespace(exitstatus=status)
    plugin.pytest_sessionfinish(session)
    return plugin, session.exitstatus


def test_more_seconds_than_allowed_fail_the_run() -> None:
    assert finish(3, 1, 1)[1] == pytest.ExitCode.OK
    plugin, status = finish(3, 1_000_000, 2)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert longest(plugin.seconds) == [("test_0", 1_000_000), ("test_1", 2)]


def test_what_failed_or_was_interrupted_stays_so() -> None:
    assert finish(1, 1_000_000, status=pytest.ExitCode.INTERRUPTED)[1] == pytest.ExitCode.INTERRUPTED


def test_a_slow_machine_is_allowed_more_and_a_fast_one_no_less() -> None:
    assert allow(600, 3 * REFERENCE_SECONDS) == pytest.approx(1_800)
    assert allow(600, REFERENCE_SECONDS / 2) == 600
    assert time_work() > 0
