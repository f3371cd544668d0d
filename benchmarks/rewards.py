"""Calculating the rewards of a million decisions with 2.4 million pieces of feedback and ten components.

    python -m benchmarks.rewards [--quick] [--keep DIR]

One agent that files items; a verdict on each decision, and the end of its item (four metrics) for a third of them.
Everything is calculated by one worker process, again by two, and then after a hundredth of the decisions heard
something new. Beside it TRUNCATE and one INSERT … SELECT of a plain sum over the same feedback, in the same run. With
--quick 50,000 decisions. Prints a row per point and one JSON object as the last line; exits 1 when a point misses its
bound. Bounds are of two free cores.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.large_ledger import UUID7, large_ledger
from tools.report import Report, log

ROOT = Path(__file__).resolve().parents[1]
COMPONENTS = (
    *("verdict", "calibration", "filer.completion", "filer.blocked", "filer.rework", "filer.time", "filer.alignment"),
    *("filer.opportunity_cost", "prioritizer.acceptance", "prioritizer.completion"),
)
FULL_SECONDS, SHARE, MEGABYTES, SPEED_UP = 120.0, 0.05, 500.0, 1.6

_DECISIONS = f"""
INSERT INTO decisions_decision
  (id, workspace_id, agent_id, agent_version_id, unit, item_ref, state, options, action, confidence, propensity,
   policy_name, observed_at, recorded_at, content_hash)
SELECT {UUID7.format(ms="m.ms")}, %(workspace)s, %(agent)s, %(version)s, 'user-' || m.i %% 5000, 'item-' || m.i,
       jsonb_build_object('item', jsonb_build_object('id', 'item-' || m.i, 'title', md5(m.i::text))), NULL,
       jsonb_build_object('status', 'TODO', 'swimlane', 'PROJECT', 'priority', 'HIGH'), random(), 0.5, 'outside',
       to_timestamp(m.ms / 1000.0), to_timestamp(m.ms / 1000.0), sha256(m.i::text::bytea)
  FROM (SELECT i, ((extract(epoch FROM %(now)s::timestamptz) - 7e6 * (%(rows)s - i) / %(rows)s) * 1000)::bigint AS ms
          FROM generate_series(1, %(rows)s) i) m
 ORDER BY m.i
"""
# 7 of 20 items have ended: 1 + 4 · 7 / 20 = 2.4 for each decision.
_FEEDBACK = f"""
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                content_hash)
SELECT {UUID7.format(ms="(extract(epoch FROM d.recorded_at) * 1000)::bigint")}, d.workspace_id, d.id, m.metric, m.value,
       m.source, d.recorded_at, d.recorded_at, d.content_hash
  FROM (SELECT *, get_byte(content_hash, 0) AS b, get_byte(content_hash, 1) %% 20 < 7 AS ended
          FROM decisions_decision) d
 CROSS JOIN LATERAL (VALUES
   ('verdict', CASE WHEN b < 180 THEN '"confirmed"'::jsonb ELSE '"corrected"' END, 'human'),
   ('completion', CASE WHEN b < 200 THEN '"DONE"'::jsonb ELSE '"COLD_STORAGE"' END, 'system'),
   ('cycles', to_jsonb(b %% 3), 'system'), ('time_ratio', to_jsonb(b / 100.0), 'system'),
   ('blocked', to_jsonb(b %% 10 = 0), 'system')) AS m(metric, value, source)
 WHERE m.metric = 'verdict' OR d.ended
"""
_MORE = f"""
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                content_hash)
SELECT {UUID7.format(ms="(extract(epoch FROM now()) * 1000)::bigint")}, d.workspace_id, d.id, 'alignment', '1',
       'system', now(), now(), d.content_hash
  FROM decisions_decision d WHERE get_byte(d.content_hash, 2) * 256 + get_byte(d.content_hash, 3) < 655
"""
_PLAIN = """
INSERT INTO bench_plain
SELECT decision_id, sum(CASE value #>> '{}' WHEN 'confirmed' THEN 1 WHEN 'corrected' THEN -0.5 WHEN 'DONE' THEN 0.5
                        WHEN 'COLD_STORAGE' THEN -0.15 ELSE 0 END)
  FROM decisions_feedback GROUP BY decision_id
"""
WORKER = """
import json, pathlib, re, sys, time
import django
django.setup()
from django.db import connection
from decisions.models import RewardSpec
from decisions.rewards.calculate import calculate_due, calculate_rewards
def kilobytes(pid, what):
    return int(re.search(what + r":\\s+(\\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
spec = RewardSpec.objects.get()
with connection.cursor() as cursor:
    cursor.execute("SELECT pg_backend_pid()")
    backend = cursor.fetchone()[0]
backend_peak = 0
def tell(done):
    global backend_peak
    backend_peak = max(backend_peak, kilobytes(backend, "RssAnon"))
print("ready", flush=True)
sys.stdin.readline()
began, cpu = time.perf_counter(), time.process_time()
done = (calculate_rewards if sys.argv[1] == "all" else calculate_due)(spec, tell=tell)
print(json.dumps({"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu,
                  "written": done.processed, "errors": done.errors,
                  "peak_mb": (kilobytes("self", "VmHWM") + backend_peak) / 1024}), flush=True)
"""


def fill(rows: int, now: dt.datetime) -> None:
    from django.db import connection

    from decisions.partitions.partitioning import ensure_partitions, month_start
    from tools.factories import AgentFactory, AgentVersionFactory, RewardSpecFactory, WorkspaceFactory

    for back in (0, -3):
        ensure_partitions(month_start(now, back))
    agent = AgentFactory(workspace=WorkspaceFactory(slug="bench-0"), slug="filer", kind="FILER")
    version = AgentVersionFactory(agent=agent)
    RewardSpecFactory(agent=agent, components=[{"name": name, "weight": 0.5, "parameters": {}} for name in COMPONENTS])
    known = {"rows": rows, "now": now, "workspace": agent.workspace_id, "agent": agent.id, "version": version.id}
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.5)")
        cursor.execute("SET session_replication_role = replica")  # what is filled needs no check of its references
        for name, statement in (("decisions", _DECISIONS), ("feedback", _FEEDBACK)):
            began = time.monotonic()
            cursor.execute(statement, known)
            log(f"{cursor.rowcount:,} {name} in {time.monotonic() - began:.0f} s")
        cursor.execute("SET session_replication_role = DEFAULT")
        cursor.execute("CREATE TABLE bench_plain (decision_id uuid, raw float8)")
        _settle(cursor)


def _settle(cursor: Any) -> None:
    for table in ("decision", "feedback", "reward", "rewarddue"):
        cursor.execute(f"VACUUM (ANALYZE) decisions_{table}")
    cursor.execute("CHECKPOINT")


def work(workers: int, what: str) -> dict[str, Any]:
    """Seconds from the first start to the last end, of worker processes that begin together."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, what],
            cwd=ROOT,
            env=os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(workers)
    ]
    for process in begun:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
    began = time.perf_counter()
    told = []
    for process in begun:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in begun:
        text, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a worker ended with {process.returncode}")
        told.append(json.loads(text.strip().splitlines()[-1]))
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 1),
        "worker_cpu_seconds": round(sum(one["cpu_seconds"] for one in told), 1),
        "written": sum(one["written"] for one in told),
        "errors": sum(one["errors"] for one in told),
        "peak_mb": round(max(one["peak_mb"] for one in told)),
    }


def plain(cursor: Any) -> float:
    began = time.perf_counter()
    cursor.execute("TRUNCATE bench_plain")
    cursor.execute(_PLAIN)
    return time.perf_counter() - began


def measure(report: Report, rows: int) -> dict[str, Any]:
    from django.db import connection

    from decisions.models import RewardSpec
    from decisions.rewards.calculate import plan_of
    from decisions.rewards.due import mark_due

    spec = RewardSpec.objects.get()

    def begin_again(cursor: Any) -> None:
        cursor.execute("TRUNCATE decisions_reward, decisions_rewarddue, decisions_rewardprogress")
        _settle(cursor)

    with connection.cursor() as cursor:
        begin_again(cursor)
        one = work(1, "all")
        log(f"one worker: {one}")
        begin_again(cursor)
        marking = time.perf_counter()
        mark_due(spec, plan_of(spec))
        marking = time.perf_counter() - marking
        two = work(2, "due")
        log(f"two workers, after {marking:.1f} s of marking: {two}")
        sums = min(plain(cursor) for _ in range(2))
        _settle(cursor)
        cursor.execute(_MORE)
        changed = cursor.rowcount
        more = work(1, "all")
        log(f"{changed:,} decisions heard something new: {more}")
        again = work(1, "all")
    scale = rows / 1_000_000
    together = two["seconds"] + marking
    bound = FULL_SECONDS * scale
    report.add(
        f"{rows:,} decisions, ten components, two workers, seconds",
        bound=f"<= {bound:g}",
        figure=round(together, 1),
        passed=together <= bound and two["written"] == rows and two["errors"] == 0,
    )
    report.add("one worker, seconds", bound="", figure=one["seconds"], passed=one["written"] == rows)
    speed_up = one["seconds"] / together
    report.add("two workers / one", bound=f">= {SPEED_UP}", figure=round(speed_up, 2), passed=speed_up >= SPEED_UP)
    report.add("TRUNCATE and INSERT … SELECT of a plain sum, seconds", bound="", figure=round(sums, 1), passed=True)
    report.add("all, two workers / that", bound="", figure=round(together / sums, 1), passed=True)
    share = more["seconds"] / one["seconds"]
    report.add(
        f"{changed:,} changed decisions / all",
        bound=f"<= {SHARE}",
        figure=round(share, 3),
        passed=share <= SHARE and more["written"] == changed,
    )
    report.add("nothing new: rewards written", bound="0", figure=again["written"], passed=again["written"] == 0)
    peak = max(one["peak_mb"], two["peak_mb"], more["peak_mb"])
    report.add("a worker and its backend, MB at most", bound=f"< {MEGABYTES:g}", figure=peak, passed=peak < MEGABYTES)
    return {"one": one, "two": two, "marking": marking, "plain": sums, "more": more, "again": again}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50,000 decisions")
    parser.add_argument("--keep", type=Path, help="keep servers and ledger in this folder")
    options = parser.parse_args()
    rows = 50_000 if options.quick else 1_000_000
    report = Report("rewards")
    with large_ledger(rows, options.keep, fill=fill):
        measure(report, rows)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
