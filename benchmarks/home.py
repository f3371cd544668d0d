"""The home page over a large ledger: server time of a look, and how its statements are planned.

    python -m benchmarks.home [--quick]

A million decisions of 30 days (100,000 with --quick), feedback on half of them and rewards for it, nine tenths in the
workspace that is looked at; a database of its own, dropped at the end. Time is of the whole view, by Django's test
client: session, permissions, statements, template. The first look of a process also fills the days of its series.
Prints a row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg

from benchmarks.own_database import own_database

BOUND_MS = 100.0
LOOKS = 40
DAYS = 30

# A uuid7 of a moment (milliseconds since 1970) with random bits below it: PostgreSQL before 18 has no such function.
UUID7 = """(lpad(to_hex({ms}), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
            || '8' || substr(md5(random()::text), 1, 15))::uuid"""
DECISIONS = f"""
INSERT INTO decisions_decision (id, workspace_id, agent_id, agent_version_id, unit, state, options, action, confidence,
                                propensity, policy_name, model_version_id, observed_at, recorded_at, content_hash)
SELECT {UUID7.format(ms="m.ms")}, w.workspace_id, w.agent_id, w.version_id, 'unit-' || i %% 50000,
       jsonb_build_object('text', repeat(md5(i::text), 6)), '["finance", "travel"]'::jsonb, '"finance"'::jsonb,
       random(), 0.5, CASE WHEN i %% 2 = 0 THEN 'outside' END, CASE WHEN i %% 2 = 1 THEN w.model_version_id END,
       to_timestamp(m.ms / 1000.0), to_timestamp(m.ms / 1000.0), decode(md5(i::text), 'hex')
  FROM generate_series(1, %(rows)s) i
  JOIN bench_place w ON w.place = CASE WHEN i %% 10 = 0 THEN 1 ELSE 0 END
  CROSS JOIN LATERAL (
    SELECT ((extract(epoch FROM %(now)s::timestamptz) - %(seconds)s::float8 * (%(rows)s - i) / %(rows)s) * 1000)::bigint
           AS ms) m
"""
FEEDBACK = f"""
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                idempotency_key, content_hash)
SELECT {UUID7.format(ms="(extract(epoch FROM d.recorded_at) * 1000)::bigint")}, d.workspace_id, d.id, 'verdict',
       CASE WHEN random() < 0.6 THEN '"confirmed"'::jsonb ELSE '"corrected"'::jsonb END, 'human',
       least(d.recorded_at + random() * interval '2 hours', %(now)s),
       least(d.recorded_at + random() * interval '2 hours', %(now)s), 'k', d.content_hash
  FROM decisions_decision d WHERE get_byte(d.content_hash, 0) %% 2 = 0
"""
REWARDS = """
INSERT INTO decisions_reward (workspace_id, decision_id, spec_id, version, value, raw, components, feedback_until,
                              computed_at)
SELECT f.workspace_id, f.decision_id, w.spec_id, 1, 0.75, 1.0, '{"verdict": {"value": 1.0}}', f.recorded_at,
       date_trunc('day', f.recorded_at) + interval '26 hours'
  FROM decisions_feedback f JOIN bench_place w ON w.workspace_id = f.workspace_id
 WHERE f.recorded_at < date_trunc('day', %(now)s::timestamptz)
"""


def fill(rows: int, now: Any) -> Any:
    """Two workspaces with one agent each; returns the first."""
    from django.db import connection

    from decisions.partitions.partitioning import ensure_partitions, month_start
    from decisions.rewards.specs import current_reward_spec
    from tools.factories import (
        AgentFactory,
        AgentVersionFactory,
        AliasFactory,
        DatasetSnapshotFactory,
        ModelVersionFactory,
        RewardSpecFactory,
        WorkspaceFactory,
    )

    ensure_partitions(month_start(now, -1))
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE bench_place (place int, workspace_id uuid, agent_id uuid, version_id uuid, spec_id uuid,"
            " model_version_id uuid)"
        )
        workspaces = []
        for place in range(2):
            workspace = WorkspaceFactory(slug=f"bench-{place}")
            agent = AgentFactory(workspace=workspace)
            version, spec = AgentVersionFactory(agent=agent), RewardSpecFactory(agent=agent)
            model_version = ModelVersionFactory(registered_model=agent.registered_model)
            AliasFactory(version=model_version)
            DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=current_reward_spec(agent))
            cursor.execute(
                "INSERT INTO bench_place VALUES (%s, %s, %s, %s, %s, %s)",
                [place, workspace.id, agent.id, version.id, spec.id, model_version.id],
            )
            workspaces.append(workspace)
        known = {"rows": rows, "now": now, "seconds": DAYS * 86_400.0}
        for name, statement in (("decisions", DECISIONS), ("feedback", FEEDBACK), ("rewards", REWARDS)):
            began = time.monotonic()
            cursor.execute(statement, known)
            print(f"{cursor.rowcount:>10,} {name} in {time.monotonic() - began:.0f} s", flush=True)
        for table in ("decisions_decision", "decisions_feedback", "decisions_reward"):
            cursor.execute(f"VACUUM (ANALYZE) {table}")
    return workspaces[0]


def time_looks(look: Callable[[], Any], times: int) -> list[float]:
    """Milliseconds of each."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        look()
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def read_end_to_end(statements: list[str]) -> Iterator[str]:
    """Statements whose plan reads a partition of more than 10,000 rows without an index."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'decisions\\_%' AND relkind = 'r' AND reltuples > 10000"
        )
        large = {name for (name,) in cursor.fetchall()}
        for statement in statements:
            if not statement.lstrip().upper().startswith(("SELECT", "WITH")):
                continue
            cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
            plan = cursor.fetchone()[0]
            plans = [(json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]]
            while plans:
                node = plans.pop()
                plans += node.get("Plans", [])
                if node["Node Type"] in {"Seq Scan", "Parallel Seq Scan"} and node.get("Relation Name") in large:
                    yield f"{node['Relation Name']}: {' '.join(statement.split())[:160]}"


def measure(rows: int) -> dict[str, Any]:
    from django.core.cache import cache
    from django.db import connection
    from django.test import Client
    from django.urls import reverse
    from django.utils import timezone

    from tools.factories import MembershipFactory, UserFactory

    now = timezone.now()
    workspace = fill(rows, now)
    user = UserFactory()
    MembershipFactory(workspace=workspace, user=user)
    client = Client()
    client.force_login(user)
    page, part = (reverse(f"pages:{name}", args=[workspace.slug]) for name in ("overview", "loop"))

    def look(path: str) -> None:
        status = client.get(path).status_code
        assert status in (200, 286), status

    look(reverse("pages:connect", args=[workspace.slug]))  # imports and templates are not what is measured
    first = time_looks(lambda: look(page), 1)[0]
    fills = time_looks(lambda: look(part), 20)  # the days of the series fill, one busy day a look
    captured: list[tuple[float, str]] = []

    def keep(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            if isinstance(sql, str):
                written = psycopg.ClientCursor(connection.connection).mogrify(sql, params) if params else sql
                captured.append(((time.perf_counter() - began) * 1000, written))

    with connection.execute_wrapper(keep):
        look(page)
    backend = psutil.Process(connection.connection.info.backend_pid)

    def worked() -> float:
        """CPU seconds of this process and of its backend: what a look costs however busy the machine is."""
        used = backend.cpu_times()
        return time.process_time() + used.user + used.system

    before = worked()
    whole = time_looks(lambda: look(page), LOOKS)
    page_cpu, before = worked() - before, worked()
    parts = time_looks(lambda: look(part), LOOKS)
    part_cpu = worked() - before
    cache.clear()
    return {
        "rows": rows,
        "first_look_ms": round(first, 1),
        "while_filling_ms_max": round(max(fills), 1),
        "page_cpu_ms": round(page_cpu / LOOKS * 1000, 1),
        "part_cpu_ms": round(part_cpu / LOOKS * 1000, 1),
        "page_ms_median": round(statistics.median(whole), 1),
        "page_ms_least": round(min(whole), 1),
        "page_ms_p95": round(sorted(whole)[int(0.95 * LOOKS)], 1),
        "part_ms_median": round(statistics.median(parts), 1),
        "part_ms_least": round(min(parts), 1),
        "part_ms_p95": round(sorted(parts)[int(0.95 * LOOKS)], 1),
        "statements": len(captured),
        "read_end_to_end": list(read_end_to_end([sql for _, sql in captured])),
        "statements_ms": round(sum(spent for spent, _ in captured), 1),
        "slowest": [(round(spent, 1), " ".join(sql.split())[:90]) for spent, sql in sorted(captured, reverse=True)[:6]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 decisions")
    quick = parser.parse_args().quick
    began = time.monotonic()
    with own_database():
        figures = measure(100_000 if quick else 1_000_000)
    points = [
        ("a look at the page, median, ms", figures["page_ms_median"], BOUND_MS),
        ("a look at the polled part, median, ms", figures["part_ms_median"], BOUND_MS),
        ("a look at the page, CPU of web and database, ms", figures["page_cpu_ms"], BOUND_MS),
        ("a look at the polled part, CPU, ms", figures["part_cpu_ms"], BOUND_MS),
        ("large tables read from end to end", float(len(figures["read_end_to_end"])), 0.0),
    ]
    for spent, statement in figures["slowest"]:
        print(f"{spent:8.1f} ms  {statement}")
    for found in figures["read_end_to_end"]:
        print(f"end to end: {found}")
    passed = True
    for label, figure, bound in points:
        passed &= figure <= bound
        print(f"{label:<52} <= {bound:<7.0f} {figure:<10.1f} {'pass' if figure <= bound else 'FAIL'}")
    report = {"benchmark": "home", "quick": quick, "passed": passed, "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps({**report, "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
