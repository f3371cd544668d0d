"""F12: jobs that raise, exit, are killed for memory and hang, and what others wait beside them.

    python -m benchmarks.poison_jobs [--quick]

An instance of its own, and a worker of two processes on a queue of its own. Jobs that do nothing come five times a
second, alone and beside poison of each kind. Each poisoned job has to be dead after three attempts with a reason. The
others wait for their claim: the median has to stay within twice what it is alone, or half a second. Prints a row per
point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from jobs.registry import job_kind
from project.celery import app  # noqa: F401 - of the worker
from tools.instance import ROOT, Instance
from tools.report import Report

QUEUE = "poisoned"
A_SECOND = 5
SHORT = {
    "RECKONER_JOB_LEASE_SECONDS": "3",
    "RECKONER_JOB_STALL_SECONDS": "2",
    "RECKONER_JOB_SWEEP_SECONDS": "0.5",
    "RECKONER_JOB_RETRY_SECONDS": "0.5",
    "RECKONER_JOB_RETRY_FACTOR": "1",
    "RECKONER_MODEL_SERVER_URL": "http://127.0.0.1:9",
}
REASONS = {
    "raises": "RuntimeError: poison",
    "exits": "its worker was lost 3 times",
    "is_killed": "its worker was lost 3 times",
    "hangs": "it hung: no progress for 2 seconds",
    "holds_the_interpreter": "its worker was lost 3 times",
}
ENQUEUE = """
import time
from jobs.services import enqueue_job
import benchmarks.poison_jobs
for kind in {poison}:
    enqueue_job(kind="poison." + kind)
for number in range({count}):
    enqueue_job(kind="poison.does_nothing")
    time.sleep({pause})
"""


def does_nothing(context: Any) -> None:
    return None


def raises(context: Any) -> None:
    raise RuntimeError("poison")


def exits(context: Any) -> None:
    os._exit(3)


def is_killed(context: Any) -> None:
    """Ends as the kernel ends a process when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(context: Any) -> None:
    time.sleep(10**6)


def holds_the_interpreter(context: Any) -> None:
    sum(range(10**13))  # one call of C: no other thread runs meanwhile


for handler in (does_nothing, raises, exits, is_killed, hangs, holds_the_interpreter):
    job_kind(f"poison.{handler.__name__}", queue=QUEUE)(handler)


@contextmanager
def worker(instance: Instance) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.poison_jobs", "worker", "-Q", QUEUE, "-c", "2"]
    with (instance.var / "poisoned.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=instance.environment | instance.services(), stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_alone_or_beside(instance: Instance, poison: list[str], seconds: float) -> list[float]:
    """Seconds from enqueued to claimed of each job that does nothing, sorted."""
    [[since]] = instance.query("SELECT clock_timestamp()")
    code = ENQUEUE.format(poison=poison, count=int(seconds * A_SECOND), pause=1 / A_SECOND)
    done = instance.manage("shell", "-c", code)
    assert done.returncode == 0, done.stderr[-3000:]
    over = "SELECT NOT EXISTS (SELECT FROM jobs_job WHERE kind LIKE 'poison.%%' AND finished_at IS NULL)"
    assert instance.wait_for(over, 120), instance.query("SELECT kind, state, error FROM jobs_job")
    rows = instance.query(
        "SELECT extract(epoch FROM started_at - created_at) FROM jobs_job"
        " WHERE kind = 'poison.does_nothing' AND created_at > %s",
        since,
    )
    return sorted(float(row[0]) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="spells of 6 seconds")
    seconds = 6.0 if parser.parse_args().quick else 20.0
    report = Report("poison_jobs")
    folder = Path(tempfile.mkdtemp(prefix="reckoner-poison-"))
    instance = Instance(folder / "var", **SHORT)
    try:
        instance.start("--no-demo")
        with worker(instance):
            wait_alone_or_beside(instance, [], 1)  # loads what is loaded once
            alone = wait_alone_or_beside(instance, [], seconds)
            for poison in (["raises", "exits", "is_killed"], ["hangs"], ["holds_the_interpreter"]):
                beside = wait_alone_or_beside(instance, poison, seconds)
                before, after = median(alone), median(beside)
                report.bound(
                    f"F12: others beside what {', '.join(poison)}: median wait, s (alone {before:.3f})",
                    after, "<=", max(2 * before, 0.5),
                )  # fmt: skip
        for kind, reason in REASONS.items():
            [row] = instance.query("SELECT state, attempts, error FROM jobs_job WHERE kind = %s", f"poison.{kind}")
            report.add(f"F12: {kind}", bound="dead after 3", figure=row, passed=row == ("dead", 3, reason))
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
