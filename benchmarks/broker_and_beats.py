"""F3 and F5 on an instance of its own: a broker that is away, and two beats.

    python -m benchmarks.broker_and_beats [--quick]

For ten minutes a second beat runs beside the instance's own: no job of a kind and key may be there twice, or be claimed
twice. Then the broker is killed, loses its messages and answers nothing; for five minutes decisions come at 50 a second
and jobs become due. All have to be recorded, and each job to run once within 90 s of the broker's return. With --quick
32 and 15 seconds. Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tools.instance import ROOT, Instance
from tools.killing import Senders, make_agent, stored
from tools.report import Report

OVERSEER = "project.embedded.overseer"
SETTINGS = {
    "RECKONER_MODEL_SERVER_URL": "http://127.0.0.1:9",
    "RECKONER_KEY_REQUESTS_A_MINUTE": "0",
    "RECKONER_OUTCOME_SECONDS": "5",  # the beats meet: its jobs have a key of 30 seconds
}
DUE, BACK_SECONDS = 10, 90.0
ENQUEUE = f"""
from decisions.tasks import MATURE_OUTCOMES
from jobs.services import enqueue_job
for number in range({DUE}):
    enqueue_job(kind=MATURE_OUTCOMES, dedupe_key=f"due-{{number}}")
"""
OURS = "dedupe_key LIKE 'due-%%'"


@contextmanager
def second_beat(instance: Instance) -> Iterator[Path]:
    """Runs another beat beside the instance's; yields the path of its log."""
    log = instance.var / "second-beat.log"
    command = [sys.executable, "-m", "celery", "-A", "project.beat", "beat", "--pidfile=", "--loglevel", "INFO"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--schedule", str(instance.var / "second-beat")],
            cwd=ROOT, env=instance.environment | instance.services(), stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield log
    finally:
        process.terminate()
        process.wait()


def try_two_beats(report: Report, instance: Instance, seconds: float) -> None:
    with second_beat(instance) as log:
        time.sleep(seconds)
        sent = log.read_text().count("Sending due task")
    report.add("F5: tasks that the second beat has sent", bound=">= 1", figure=sent, passed=sent >= 1)
    jobs = instance.query("SELECT kind, dedupe_key, count(*), max(fence) FROM jobs_job GROUP BY 1, 2")
    twice = [job for job in jobs if job[1] is not None and job[2] > 1]
    report.add("F5: jobs there twice", bound="0", figure=f"{twice[:3] or 0} of {len(jobs)}", passed=not twice)
    again = [job for job in jobs if job[3] > 1]
    report.add("F5: jobs claimed twice", bound="0", figure=again[:3] or 0, passed=not again and len(jobs) > 1)


def find_broker(overseer: psutil.Process, before: int) -> psutil.Process:
    """The overseer's broker that is not the process `before`. Raises TimeoutError."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        for child in overseer.children():
            with suppress(psutil.NoSuchProcess):
                line = child.cmdline()
                if child.pid != before and line and "valkey-server" in line[0]:
                    return child
        time.sleep(0.02)
    raise TimeoutError("no broker runs")


def try_without_broker(report: Report, instance: Instance, token: str, seconds: float) -> None:
    [overseer] = instance.find(OVERSEER)
    killed = find_broker(overseer, 0)
    killed.kill()
    broker = find_broker(overseer, killed.pid)
    broker.send_signal(signal.SIGSTOP)  # the overseer has started it again, without its messages
    try:
        with Senders(instance.url, token, a_second=50.0) as senders:
            began = time.monotonic()
            done = instance.manage("shell", "-c", ENQUEUE)
            assert done.returncode == 0, done.stderr[-3000:]
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        away = instance.query(f"SELECT count(*) FROM jobs_job WHERE {OURS} AND state = 'queued'")
    finally:
        broker.send_signal(signal.SIGCONT)
    back = time.monotonic()
    lost = senders.acknowledged - set(stored(instance, senders))
    failed = senders.refused[:2] or senders.repeated
    figure = f"{len(lost)} lost, {failed} failed of {len(senders.acknowledged)}"
    report.add(
        "F3: decisions without a broker", bound="0 lost, 0 failed", figure=figure,
        passed=bool(senders.acknowledged) and not lost and not failed,
    )  # fmt: skip
    report.add("F3: jobs that waited for it", bound=f"{DUE}", figure=away[0][0], passed=away == [(DUE,)])
    over = f"SELECT count(*) = {DUE} FROM jobs_job WHERE {OURS} AND state = 'succeeded'"
    took = time.monotonic() - back if instance.wait_for(over, 2 * BACK_SECONDS) else None
    report.bound("F3: all done after its return, s", took, "<=", BACK_SECONDS)
    again = instance.query(f"SELECT max(fence) FROM jobs_job WHERE {OURS}")
    report.add("F3: claims of each", bound="1", figure=again[0][0], passed=again == [(1,)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="32 s of two beats, 15 s without a broker")
    beats, away = (32.0, 15.0) if parser.parse_args().quick else (600.0, 300.0)
    report = Report("broker_and_beats")
    folder = Path(tempfile.mkdtemp(prefix="reckoner-queue-"))
    instance = Instance(folder / "var", **SETTINGS)
    try:
        instance.start("--no-demo")
        try_two_beats(report, instance, beats)
        try_without_broker(report, instance, make_agent(instance), away)
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
