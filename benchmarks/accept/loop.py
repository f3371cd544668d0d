"""`make accept PART=loop`: everything that the first issue must show. Long; not part of CI.

    python -m benchmarks.accept.loop [--only NAME …] [--quick] [--keep DIR]

`--quick` uses one seed and leaves out the fresh clone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import uuid_utils.compat

from tools.instance import ROOT, Instance, marked_processes
from tools.report import Report, log

LOOP_SECONDS = 240
FROM_NOTHING_SECONDS = 420
TEST_SECONDS = 900
GAIN = 0.09
SEEDS = (0, 1, 2)
DECISIONS = 2000
WEB_KILLS = 10
QUICK_RECOVERY = {
    "RECKONER_JOB_LEASE_SECONDS": "10",
    "RECKONER_JOB_SWEEP_SECONDS": "3",
    "RECKONER_CHECKPOINT_SECONDS": "1",
}


def last_json(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def fresh_clone(report: Report, work: Path, quick: bool) -> None:
    """The two README commands in a fresh clone with a clean HOME."""
    clone, home = work / "clone", work / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    kept = ("PATH", "LANG", "PIP_FIND_LINKS", "PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | {"HOME": str(home)}
    started = time.monotonic()
    done = subprocess.run(
        ["make", "run", "ARGS=--once"], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - started
    log(done.stderr[-1500:])
    report.add(
        "fresh clone: make run ARGS=--once exits", bound="0", figure=done.returncode, passed=done.returncode == 0
    )
    report.add(
        "  from nothing, seconds",
        bound=f"<= {FROM_NOTHING_SECONDS}",
        figure=round(seconds),
        passed=seconds <= FROM_NOTHING_SECONDS,
    )
    loop = last_json(done.stdout).get("loop_seconds", float("inf"))
    report.add("  the loop itself, seconds", bound=f"<= {LOOP_SECONDS}", figure=loop, passed=loop <= LOOP_SECONDS)
    left = marked_processes(clone / "var")
    report.add("  processes left behind", bound="0", figure=len(left), passed=not left)
    started = time.monotonic()
    tests = subprocess.run(["make", "test"], cwd=clone, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    log(tests.stdout[-1500:] + tests.stderr[-500:])
    closing = tests.stdout.strip().splitlines()[-1] if tests.stdout.strip() else ""
    report.add(
        "fresh clone: make test exits", bound="0", figure=f"{tests.returncode}; {closing}", passed=tests.returncode == 0
    )
    report.add("  seconds", bound=f"<= {TEST_SECONDS}", figure=round(seconds), passed=seconds <= TEST_SECONDS)


def seeds(report: Report, work: Path, quick: bool) -> None:
    """Each seed of the demo loop must improve, by the paired held-out difference."""
    for seed in SEEDS[:1] if quick else SEEDS:
        instance = Instance(work / f"seed-{seed}", RECKONER_DEMO_SEED=str(seed))
        done = instance.manage("up", "--once")
        result = last_json(done.stdout)
        if "scores" not in result:
            report.add(f"seed {seed}: the loop ends", bound="with a result", figure=result, passed=False)
            log(done.stderr[-2000:])
            continue
        difference = result["differences"]["accuracy"]
        base, trained = (result["scores"][name]["accuracy"]["mean"] for name in ("base", "trained"))
        valid = result["scores"]["trained"]["valid_share"]["mean"]
        figure = f"{difference['mean']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]"
        report.add(
            f"seed {seed}: held-out accuracy {base:.3f} -> {trained:.3f}",
            bound=f">= +{GAIN:.2f}, low > 0",
            figure=figure,
            passed=difference["mean"] >= GAIN and difference["low"] > 0,
        )
        report.add(
            f"  base is useful but improvable; valid actions {valid:.3f}",
            bound="0.45 to 0.65",
            figure=f"{base:.3f}",
            passed=0.45 <= base <= 0.65,
        )
        report.add(
            f"  experiment, exit code {done.returncode}",
            bound="promoted, 0",
            figure=(result["experiment"] or {"state": "none"})["state"],
            passed=result["better"] and done.returncode == 0,
        )
        report.add(
            "  loop seconds",
            bound=f"<= {LOOP_SECONDS}",
            figure=result["loop_seconds"],
            passed=result["loop_seconds"] <= LOOP_SECONDS,
        )


def kills(report: Report, work: Path, quick: bool) -> None:
    """kill -9 of worker, trainer and everything in mid-run; a flushed broker; and the processes' imports."""
    instance = Instance(
        work / "kills",
        RECKONER_DEMO_DECISIONS="2000",
        RECKONER_DEMO_EXPERIMENT_UNITS="1400",
        **QUICK_RECOVERY,
    )
    instance.start()
    run_has = "SELECT EXISTS (SELECT 1 FROM training_trainingrun r WHERE r.method = %s AND r.state = %s)"
    checkpointed = (
        "SELECT EXISTS (SELECT 1 FROM training_runevent e JOIN training_trainingrun r ON r.id = e.run_id"
        " WHERE r.method = %s AND e.kind = 'checkpoint' AND r.state = 'running')"
    )
    hit = instance.wait_for(checkpointed, 120, "pretrain")
    killed = (instance.kill("trainer@reckoner"), instance.kill("worker@reckoner"))
    report.add(
        "kill -9 of trainer and worker after a checkpoint: landed",
        bound="processes > 0",
        figure=killed,
        passed=hit and min(killed) > 0,
    )
    ended = instance.wait_for(run_has, 240, "pretrain", "succeeded")
    resumed = instance.query(
        "SELECT r.method, count(DISTINCT e.attempt), max(e.details ->> 'resumed_from')"
        " FROM training_runevent e JOIN training_trainingrun r ON r.id = e.run_id"
        " WHERE e.kind = 'started' AND r.method = 'pretrain' GROUP BY 1"
    )
    report.add(
        "  the run resumes from its checkpoint and ends",
        bound=">= 2 attempts",
        figure=resumed,
        passed=ended and resumed[0][1] >= 2 and bool(resumed[0][2]),
    )

    instance.wait_for("SELECT count(*) > 200 FROM decisions_decision", 120)
    instance.flush_broker()
    before = instance.query("SELECT count(*) FROM decisions_decision")[0][0]
    goes_on = instance.wait_for("SELECT count(*) >= %s FROM decisions_decision", 90, before + 300)
    report.add(
        "broker flushed while the loop works: it goes on", bound=">= 300 more in 90 s", figure=goes_on, passed=goes_on
    )

    torchless(report, instance)
    hit = instance.wait_for(checkpointed, 240, "posterior")
    for process in marked_processes(instance.var):
        process.kill()
    instance.process.wait()
    report.add("kill -9 of everything while the trainer works: landed", bound="mid-run", figure=hit, passed=hit)
    instance.start()
    done = instance.wait_for("SELECT state = 'succeeded' FROM jobs_job WHERE kind = 'project.demo_loop'", 400)
    states = dict(instance.query("SELECT state, count(*) FROM jobs_job GROUP BY 1"))
    report.add(
        "  the next start goes on to the loop's end; jobs by state",
        bound="none dead",
        figure=states,
        passed=done and not states.get("dead"),
    )
    attempts = instance.query("SELECT max(attempts) FROM jobs_job")[0][0]
    report.add("  attempts of any job", bound="<= 3", figure=attempts, passed=attempts <= 3)
    ingest(report, instance)
    code = instance.stop()
    left = marked_processes(instance.var)
    report.add(
        "SIGTERM: exit code, processes left", bound="0, 0", figure=(code, len(left)), passed=not code and not left
    )


def torchless(report: Report, instance: Instance) -> None:
    """What the web and Celery processes have mapped: none of torch's libraries."""
    for name, words in (
        ("web", ["project.wsgi"]),
        ("worker", ["worker@reckoner"]),
        ("trainer", ["trainer@reckoner"]),
        ("beat", ["celery", "beat"]),
    ):
        processes = instance.find(*words)
        mapped = [p.pid for p in processes if any("torch" in m.path for m in p.memory_maps(grouped=True))]
        report.add(
            f"torch in the {name} processes ({len(processes)} looked at)",
            bound="none",
            figure=mapped or "none",
            passed=bool(processes) and not mapped,
        )
    server = instance.find("training.engine.server")
    seen = any("torch" in m.path for p in server for m in p.memory_maps(grouped=True))
    report.add("  and in the model server, to show that the look can see it", bound="seen", figure=seen, passed=seen)


def ingest(report: Report, instance: Instance) -> None:
    """Acknowledged = stored, once, while the web process is killed ten times."""
    headers = {"Authorization": f"Bearer {instance.make_key('accept')}"}
    url = f"{instance.url}/api/v1/decisions"
    options = instance.query("SELECT options FROM decisions_agentversion LIMIT 1")[0][0]

    def decision(text: str) -> dict:
        return {
            "id": str(uuid_utils.compat.uuid7()),
            "agent": "filer",
            "state": {"text": text},
            "action": options[0],
            "policy_name": "accept",
        }

    one = decision("the same decision")
    first, again = (httpx.post(url, json=one, headers=headers) for _ in range(2))
    stored = instance.query("SELECT count(*) FROM decisions_decision WHERE id = %s", one["id"])[0][0]
    report.add(
        "the same decision sent twice",
        bound="one row, duplicate",
        passed=stored == 1 and first.status_code == again.status_code == 201 and again.json()["kept"][0]["duplicate"],
        figure=f"{stored} row, {again.json()}",
    )
    other = httpx.post(url, json=one | {"action": options[1]}, headers=headers)
    report.add(
        "  with other content",
        bound="id_conflict",
        figure=other.json()["error"]["code"],
        passed=other.json()["error"]["code"] == "id_conflict",
    )

    decisions = [decision(f"decision {number}") for number in range(DECISIONS)]
    acknowledged: list[str] = []
    lock, position = threading.Lock(), iter(decisions)
    broken = 0

    def send() -> None:
        nonlocal broken
        with httpx.Client(headers=headers, timeout=10) as client:
            while True:
                with lock:
                    item = next(position, None)
                if item is None:
                    return
                for _ in range(200):
                    try:
                        answer = client.post(url, json=item)
                    except httpx.HTTPError:
                        with lock:
                            broken += 1
                        time.sleep(0.1)
                        continue
                    if answer.status_code == 201:
                        with lock:
                            acknowledged.append(item["id"])
                        break
                    time.sleep(0.1)

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    kills_landed = 0
    for number in range(WEB_KILLS):
        target = (number + 1) * DECISIONS // (WEB_KILLS + 1)
        while len(acknowledged) < target and any(sender.is_alive() for sender in senders):
            time.sleep(0.01)
        time.sleep(random.random() * 0.05)
        kills_landed += instance.kill("project.wsgi") > 0
    for sender in senders:
        sender.join()
    rows = instance.query("SELECT count(*), count(DISTINCT id) FROM decisions_decision WHERE policy_name = 'accept'")[0]
    kept = instance.query("SELECT count(*) FROM decisions_decision WHERE id = ANY(%s)", acknowledged)[0][0]
    report.add(
        f"web killed {kills_landed} times, {broken} broken requests: acknowledged",
        bound=str(DECISIONS),
        figure=len(acknowledged),
        passed=len(acknowledged) == DECISIONS and kills_landed == WEB_KILLS,
    )
    report.add(
        "  acknowledged and stored, once each",
        bound=f"{DECISIONS} (+1)",
        figure=f"{kept} of them; rows {rows}",
        passed=kept == DECISIONS and rows == (DECISIONS + 1, DECISIONS + 1),
    )


PARTS = {"seeds": seeds, "kills": kills, "fresh_clone": fresh_clone}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(PARTS), help="run this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="one seed, no fresh clone")
    parser.add_argument("--keep", type=Path, help="work in this directory and keep it")
    options = parser.parse_args()
    chosen = options.only or [name for name in PARTS if not (options.quick and name == "fresh_clone")]
    work = options.keep or Path(tempfile.mkdtemp(prefix="reckoner-accept-"))
    work.mkdir(parents=True, exist_ok=True)
    report = Report("loop")
    try:
        for name in chosen:
            PARTS[name](report, work, options.quick)
    finally:
        if options.keep is None:
            shutil.rmtree(work, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
