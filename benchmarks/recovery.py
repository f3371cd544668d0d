"""How long calls fail after a process of web or gateway is killed, and what loading it again takes.

    python -m benchmarks.recovery [--quick] [--root FOLDER]

An instance of its own with a stub as the model. A page of the web and a chat of the gateway are asked for 10 times a
second, each over a new connection, while `kill -9` ends one worker of the web, the web's first process, one process of
the gateway, the gateway's first, and the first of both. `away` is from the kill to the end of the last call that
failed, seen until new first processes serve and nothing is left of the old ones. Beside it stand the processor seconds
of the new first process, which are its imports, and the load average: on a busy machine the seconds are those of the
others.
`--root`: another checkout, whose instance is measured, with the libraries of this one.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.serving import start, stub_server
from benchmarks.unread_bodies import legitimate_calls
from tools.instance import ROOT, Instance
from tools.report import Report, log
from tools.steady import FAULTS, Ask

WEB, GATEWAY = ("gunicorn", "project.wsgi"), ("-m project.gateway",)
BOUND_SECONDS, GIVE_UP_SECONDS, QUIET_SECONDS = 10.0, 180.0, 3.0
A_SECOND = 10
LOADED = ("torch", "transformers", "pandas")
"""Libraries of the engine, which no process that serves may hold: their shared objects would be mapped."""


@dataclass
class Caller:
    """Asks at its rate, whether or not earlier calls have ended; `failed_at`: when calls that failed had ended."""

    ask: Ask
    failed_at: list[float] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=[number]) for number in range(A_SECOND)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _run(self, number: int) -> None:
        self._stop.wait(number / A_SECOND)
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.ask()
            except FAULTS:
                self.failed_at.append(time.monotonic())
            else:
                self.answered_at.append(time.monotonic())
            self._stop.wait(max(0.0, began + 1 - time.monotonic()))

    def away(self, since: float) -> float:
        """Seconds from `since` to the end of the last call that failed."""
        return max((at - since for at in list(self.failed_at) if at > since), default=0.0)

    def is_well(self, since: float) -> bool:
        """Returns whether all calls of the last QUIET_SECONDS were answered."""
        now = time.monotonic()
        quiet = now - max([since, *self.failed_at[-1:]])
        return quiet >= QUIET_SECONDS and bool(self.answered_at) and now - self.answered_at[-1] < 1.0


def firsts_of(instance: Instance, words: tuple[str, ...]) -> list[psutil.Process]:
    """The process that has forked the others; and what others have left that were killed."""
    processes = instance.find(*words)
    pids = {process.pid for process in processes}
    return [process for process in processes if process.ppid() not in pids]


def first_of(instance: Instance, words: tuple[str, ...]) -> psutil.Process:
    [first] = firsts_of(instance, words)
    return first


def is_settled(instance: Instance) -> bool:
    """Whether web and gateway have one first process each, which has forked others."""
    try:
        return all(
            len(firsts) == 1 and firsts[0].children()
            for firsts in (firsts_of(instance, WEB), firsts_of(instance, GATEWAY))
        )
    except psutil.NoSuchProcess:
        return False


def child_of(instance: Instance, words: tuple[str, ...]) -> psutil.Process:
    return first_of(instance, words).children()[0]


VICTIMS: dict[str, Callable[[Instance], list[psutil.Process]]] = {
    "a worker of the web": lambda instance: [child_of(instance, WEB)],
    "the web's first process": lambda instance: [first_of(instance, WEB)],
    "a process of the gateway": lambda instance: [child_of(instance, GATEWAY)],
    "the gateway's first process": lambda instance: [first_of(instance, GATEWAY)],
    "the first of both": lambda instance: [first_of(instance, WEB), first_of(instance, GATEWAY)],
}


def kill_and_wait(instance: Instance, calls: dict[str, Ask], who: str) -> dict[str, float]:
    """Seconds that each kind of call was away."""
    callers = {kind: Caller(ask) for kind, ask in calls.items()}
    with contextlib.ExitStack() as stack:
        for caller in callers.values():
            stack.enter_context(caller.calling())
        time.sleep(2)
        victims = VICTIMS[who](instance)
        killed = time.monotonic()
        for process in victims:
            process.kill()
        while not (is_settled(instance) and all(caller.is_well(killed) for caller in callers.values())):
            if time.monotonic() - killed > GIVE_UP_SECONDS:
                break
            time.sleep(0.2)
    return {kind: caller.away(killed) for kind, caller in callers.items()}


def measure(report: Report, instance: Instance, token: str, rounds: int) -> None:
    everything = legitimate_calls(instance, token)
    calls = {kind: everything[kind] for kind in ("pages", "chats")}
    for who in VICTIMS:
        away: list[float] = []
        for _ in range(rounds):
            seconds = kill_and_wait(instance, calls, who)
            away.append(max(seconds.values()))
            shown = {kind: round(value, 1) for kind, value in seconds.items()}
            log(f"{who} killed: away {shown} s; load {os.getloadavg()[0]:.1f}")
        worst = max(away)
        figure = f"{worst:.1f} s (load {os.getloadavg()[0]:.1f})"
        report.add(f"{who} killed {rounds} times: away at most", bound=f"<= {BOUND_SECONDS:g} s", figure=figure,
                   passed=worst <= BOUND_SECONDS)  # fmt: skip
    for what, words in (("web", WEB), ("gateway", GATEWAY)):
        times = first_of(instance, words).cpu_times()
        report.add(f"processor seconds of the {what}'s new first process", bound="", passed=True,
                   figure=f"{times.user + times.system:.1f}")  # fmt: skip
        held = set()
        for process in instance.find(*words):
            paths = [mapped.path for mapped in process.memory_maps()]
            held |= {name for name in LOADED for path in paths if f"/site-packages/{name}/" in path}
        report.add(f"libraries of the engine in the {what}", bound="none", figure=sorted(held), passed=not held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each is killed once instead of five times")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose instance is measured")
    options = parser.parse_args()
    report = Report("recovery")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reckoner-recovery-"))
        stub = stack.enter_context(stub_server())
        instance, token = start(Path(folder) / "var", stub, root=options.root)
        stack.callback(instance.stop)
        measure(report, instance, token, 1 if options.quick else 5)
    return report.finish(load=os.getloadavg()[0])


if __name__ == "__main__":
    sys.exit(main())
