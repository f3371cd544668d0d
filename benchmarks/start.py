"""A second start, and what an idle instance holds.

    python -m benchmarks.start [--quick]

An instance with everything (`manage.py up --no-demo` in a temporary folder: databases, web, workers, beat, model
server) is started, stopped and started again. Of the second start: seconds until `up` says that it is ready, and CPU
seconds of all its processes until then, which say more where a machine has other work. Of the idle instance, after two
minutes (45 s with --quick), when the first jobs have run: the proportional set size of all its processes, so that
memory they share counts once. Linux alone tells that.

Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tools.instance import Instance, marked_processes
from tools.ports import free_port
from tools.report import Report, log

START_SECONDS = 12.0
IDLE_MEGABYTES = 1200


def processes_of(instance: Instance) -> Iterator[psutil.Process]:
    assert instance.process is not None
    seen = set()
    for process in [psutil.Process(instance.process.pid), *marked_processes(instance.var)]:
        for found in [process, *process.children(recursive=True)]:
            if found.pid not in seen:
                seen.add(found.pid)
                yield found


def cpu_seconds(instance: Instance) -> float:
    """Of all processes, with what their ended children used."""
    total = 0.0
    for process in processes_of(instance):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            # `up` and the supervisor collect children that are in the list themselves while they live, and only then.
            total += times.user + times.system + times.children_user + times.children_system
    return total


def megabytes(instance: Instance) -> dict[str, int]:
    """Proportional set size by program, in MB."""
    found: dict[str, float] = {}
    for process in processes_of(instance):
        with contextlib.suppress(psutil.NoSuchProcess):
            words = " ".join(process.cmdline())
            names = ("gunicorn", "celery", "training.engine.server", "overseer", "postgres", "valkey")
            name = next((name for name in names if name in words), "up")
            found[name] = found.get(name, 0.0) + process.memory_full_info().pss / 1e6
    return {name: round(size) for name, size in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="look at the idle instance after 45 s")
    quick = parser.parse_args().quick
    folder = Path(tempfile.mkdtemp(prefix="reckoner-start-"))
    instance = Instance(folder / "var")
    port = str(free_port())
    report = Report("start")
    try:
        for number in (1, 2):
            began = time.monotonic()
            instance.start("--no-demo", "--port", port)
            seconds, cpu = time.monotonic() - began, cpu_seconds(instance)
            log(f"start {number}: {seconds:.1f} s, {cpu:.1f} s of CPU until ready")
            if number == 1:
                instance.stop()
        report.add(
            "a second start until ready", bound=f"<= {START_SECONDS:.0f} s", passed=seconds <= START_SECONDS,
            figure=f"{seconds:.1f} s; {cpu:.1f} s of CPU",
        )  # fmt: skip
        time.sleep(45 if quick else 120)
        parts = megabytes(instance)
        total = sum(parts.values())
        report.add("idle, everything running", bound=f"<= {IDLE_MEGABYTES} MB", passed=total <= IDLE_MEGABYTES,
                   figure=f"{total} MB: {parts}")  # fmt: skip
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
