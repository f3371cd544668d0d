"""Calls at a steady rate, alone and beside a disturbance in turns: what the disturbance costs everybody else."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import httpx

from tools.report import Report

Ask = Callable[[], None]
"""One call; raises for an answer that is not right, and for none."""
FAULTS = (OSError, AssertionError, httpx.HTTPError, http.client.HTTPException)
"""What clients raise."""
PATIENCE = 90.0
"""Seconds after its end in which a spell that hangs may catch up; what has not been asked by then counts as refused."""


@dataclass
class Calls:
    """`took`: milliseconds of each answered call. `refused`: what the others raised."""

    took: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, more: Calls) -> None:
        self.took += more.took
        self.refused += more.refused

    def share(self, share: float) -> float:
        """A percentile in milliseconds; infinite where nothing was answered."""
        return sorted(self.took)[int(len(self.took) * share)] if self.took else float("inf")


def ask_steadily(a_second: float, seconds: float, ask: Ask) -> Calls:
    """Each call counts from the moment it was due: a slow one does not hold back those behind it."""
    began, calls = time.monotonic(), Calls()
    for number in range(int(a_second * seconds)):
        due = began + number / a_second
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() - began > seconds + PATIENCE:
            calls.refused.append("not asked: those before it hung")
            continue
        try:
            ask()
        except FAULTS as error:
            calls.refused.append(f"{type(error).__name__}: {error}"[:200])
        else:
            calls.took.append((time.monotonic() - due) * 1000)
    return calls


def ask_side_by_side(asks: Mapping[str, Ask], a_second: float, seconds: float) -> dict[str, Calls]:
    """Every kind in a thread of its own."""
    calls: dict[str, Calls] = {}

    def run(kind: str) -> None:
        calls[kind] = ask_steadily(a_second, seconds, asks[kind])

    threads = [threading.Thread(target=run, args=[kind]) for kind in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return calls


@dataclass(frozen=True)
class Beside:
    """The calls of each kind without the disturbance, and beside it."""

    alone: dict[str, Calls]
    beside: dict[str, Calls]

    def report(self, report: Report, what: str, *, most: float = 2.0, refused: int = 0, than: str = "alone") -> None:
        """Two rows a kind: the ratio of the 99th percentiles, and how many were refused."""
        for kind, calls in self.beside.items():
            before, after = self.alone[kind].share(0.99), calls.share(0.99)
            ratio = after / before
            figure = f"{ratio:.2f} ({before:.1f} and {after:.1f} ms, {len(calls.took)} calls)"
            report.add(
                f"{kind} beside {what}, p99 to {than}", bound=f"<= {most:g}", figure=figure, passed=ratio <= most
            )
            self._report_refused(report, kind, what, refused)

    def report_slowest(self, report: Report, what: str, *, seconds: float) -> None:
        """Likewise, but the slowest call: within the seconds, or twice the slowest alone on a busy machine."""
        for kind, calls in self.beside.items():
            alone, beside = max(self.alone[kind].took, default=0.0) / 1000, max(calls.took, default=float("inf")) / 1000
            most = max(seconds, 2 * alone)
            figure = f"{beside:.2f} (alone {alone:.2f}, {len(calls.took)} calls)"
            report.add(
                f"{kind} beside {what}, slowest, s", bound=f"<= {most:.2g}", figure=figure, passed=beside <= most
            )
            self._report_refused(report, kind, what, 0)

    def _report_refused(self, report: Report, kind: str, what: str, refused: int) -> None:
        calls = self.beside[kind]
        bad = calls.refused
        shown = f"{len(bad)} of {len(calls.took) + len(bad)}" + (f": {sorted(set(bad))[:2]}" if bad else "")
        report.add(f"{kind} beside {what}, refused", bound=f"<= {refused}", figure=shown, passed=len(bad) <= refused)


def ask_in_turns(
    asks: Mapping[str, Ask],
    disturb: Callable[[], AbstractContextManager[object]],
    *,
    spells: int,
    seconds: float,
    a_second: float = 5.0,
    undisturbed: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Beside:
    """Undisturbed spells and spells beside the disturbance in turns, so that both meet the same machine. `undisturbed`:
    what goes on in the former, where they are not to be alone."""
    ask_side_by_side(asks, a_second, 3)  # loads what is loaded once
    found = Beside({kind: Calls() for kind in asks}, {kind: Calls() for kind in asks})
    for _ in range(spells):
        with undisturbed():
            for kind, calls in ask_side_by_side(asks, a_second, seconds).items():
                found.alone[kind].add(calls)
        with disturb():
            for kind, calls in ask_side_by_side(asks, a_second, seconds).items():
                found.beside[kind].add(calls)
    return found
