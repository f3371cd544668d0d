"""Looks at an experiment with a million observations, and its page.

    python -m benchmarks.experiment_looks [--quick]

An experiment of 30 days with a million matured units of one decision each (100,000 with --quick), 20,000 more that have
not matured, and a log of hourly looks; rows are made by statements of SQL from a fixed seed. At each look the maturing
job finds 1,000 new units; then a viewer asks for the page. Times are medians of the processor's, of this process and of
the database's together, which other work on the machine does not change much; the clock's stand beside them. Prints a
row per point and one JSON object as the last line; exits 1 when a point misses its bound.
"""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection

from benchmarks.large_ledger import UUID7, large_ledger
from tools.report import Report

SLUG = "bench-looks"
DAYS = 30
FRESH, LOOKS, OPEN = 1_000, 5, 20_000
PLACE = "/w/{slug}/experiments/{id}"

# Outcomes .75 and .375 as the demo's; both arms' probabilities for nine units in ten; no guardrail ever fails.
_EXPOSURES = f"""
INSERT INTO models_registry_exposure (id, workspace_id, experiment_id, phase_id, unit, arm, assignment_probability,
                                      version_id, served_arm, fallback, exposed_at, settled)
SELECT {UUID7.format(ms="(extract(epoch FROM m.at) * 1000)::bigint")}, %(workspace)s, %(experiment)s, %(phase)s,
       'unit-' || i, a.arm, 0.5, CASE WHEN a.arm = 'control' THEN %(control)s ELSE %(treatment)s END::uuid, a.arm,
       false, m.at, i <= %(rows)s
  FROM generate_series(1, %(rows)s + %(new)s) i
  CROSS JOIN LATERAL (SELECT %(began)s::timestamptz + i * %(step)s::interval AS at) m
  CROSS JOIN LATERAL (SELECT CASE WHEN get_byte(sha256(i::text::bytea), 0) < 128 THEN 'control'
                                  ELSE 'treatment' END AS arm) a
"""
_OBSERVATIONS = """
INSERT INTO models_registry_observation (id, workspace_id, experiment_id, exposure_id, unit, position, outcome,
                                         guardrails, log_l_control, log_l_treatment, log_e_plus, log_e_minus,
                                         matured_at)
SELECT gen_random_uuid(), workspace_id, experiment_id, id, unit, substr(unit, 6)::int,
       CASE WHEN b.value < 40 THEN NULL WHEN b.value < 150 THEN 0.75 ELSE 0.375 END,
       '{"error_rate": 0.0, "latency": 0.0, "missing_feedback": 0.0}',
       CASE WHEN c.value > 25 THEN -1.2 END, CASE WHEN c.value > 25 THEN -1.2 + c.value / 1000.0 END, 0, 0,
       exposed_at + interval '2 hours'
  FROM models_registry_exposure
  CROSS JOIN LATERAL (SELECT get_byte(sha256(unit::bytea), 1) AS value) b
  CROSS JOIN LATERAL (SELECT get_byte(sha256(unit::bytea), 2) AS value) c
 WHERE experiment_id = %(experiment)s AND settled
"""
_DECISIONS = f"""
INSERT INTO decisions_decision (id, workspace_id, agent_id, agent_version_id, unit, state, options, action, confidence,
                                propensity, other_arm_propensity, model_version_id, exposure_id, latency_ms,
                                observed_at, recorded_at, content_hash)
SELECT {UUID7.format(ms="(extract(epoch FROM e.exposed_at) * 1000)::bigint")}, e.workspace_id, %(agent)s,
       %(agent_version)s, e.unit, '{{"text": "x"}}', '["a", "b"]', '"a"', 0.5, 0.5, 0.6, e.version_id, e.id, 20,
       e.exposed_at, e.exposed_at, sha256(e.unit::bytea)
  FROM models_registry_exposure e WHERE e.experiment_id = %(experiment)s ORDER BY e.exposed_at
"""
_FEEDBACK = """
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                idempotency_key, content_hash)
SELECT gen_random_uuid(), d.workspace_id, d.id, 'verdict', '"confirmed"', 'human',
       d.recorded_at, d.recorded_at + interval '1 minute', 'k', d.content_hash
  FROM decisions_decision d JOIN models_registry_exposure e ON e.id = d.exposure_id AND NOT e.settled
 WHERE get_byte(d.content_hash, 1) >= 40
"""
_SETTLED = """
UPDATE models_registry_phase p SET settled = (
  SELECT jsonb_object_agg(arm, units) FROM (
    SELECT arm, count(*) AS units FROM models_registry_exposure WHERE phase_id = p.id AND settled GROUP BY arm) g)
 WHERE p.id = %(phase)s
"""


def fill(rows: int, now: dt.datetime) -> None:
    from decisions.partitions.partitioning import ensure_partitions, month_start
    from models_registry.experiments.plan import ExperimentPlan
    from models_registry.experiments.services import start_experiment
    from tools.factories import (
        AgentFactory,
        AgentVersionFactory,
        AliasFactory,
        LookFactory,
        ModelVersionFactory,
        RewardSpecFactory,
        WorkspaceFactory,
    )
    from workspaces.access.actors import system

    for months in (-2, -1, 0):
        ensure_partitions(month_start(now, months))
    agent = AgentFactory(workspace=WorkspaceFactory(slug=SLUG), slug="filer")
    version = AgentVersionFactory(agent=agent)
    RewardSpecFactory(agent=agent)
    control, treatment = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
    AliasFactory(version=control)
    plan = ExperimentPlan(
        exposure_window_seconds=3600.0, attribution_window_seconds=3600.0, promote_e=1e12, rollback_e=1e12
    )
    experiment = start_experiment(by=system(agent.workspace), treatment=treatment, plan=plan, reason="a benchmark")
    phase = experiment.phases.get()
    began = now - dt.timedelta(days=DAYS)
    type(experiment).objects.filter(id=experiment.id).update(started_at=began, running={})
    new = FRESH * LOOKS + OPEN
    known = {
        "rows": rows, "new": new, "began": began, "step": dt.timedelta(days=DAYS) / (rows + new),
        "workspace": agent.workspace_id, "experiment": experiment.id, "phase": phase.id, "control": control.id,
        "treatment": treatment.id, "agent": agent.id, "agent_version": version.id,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.5)")
        for name, statement in (
            ("exposures", _EXPOSURES), ("observations", _OBSERVATIONS), ("decisions", _DECISIONS),
            ("verdicts", _FEEDBACK), ("phase", _SETTLED),
        ):  # fmt: skip
            began_at = time.monotonic()
            cursor.execute(statement, known)
            print(f"{cursor.rowcount:>10,} {name} in {time.monotonic() - began_at:.0f} s", flush=True)
        for table in ("models_registry_exposure", "models_registry_observation", "decisions_decision"):
            cursor.execute(f"VACUUM (ANALYZE) {table}")
        cursor.execute("ANALYZE")
    for hour in range(DAYS * 24):
        units = rows * (hour + 1) // (DAYS * 24)
        LookFactory(
            experiment=experiment, at=began + dt.timedelta(hours=hour), units_control=units // 2,
            units_treatment=units - units // 2,
        )  # fmt: skip


def measure(rows: int) -> dict[str, float]:
    """Seconds of looks, milliseconds of pages."""
    from django.test import Client

    logging.getLogger("project.middleware").setLevel(logging.ERROR)
    logging.getLogger("workspaces.accounts.security_events").setLevel(logging.ERROR)
    from decisions.rewards.maturing import mature_outcomes
    from models_registry.models import Experiment, Exposure, Observation
    from tools.factories import MembershipFactory

    experiment = Experiment.objects.get(workspace__slug=SLUG)
    fresh = list(
        Exposure.objects.filter(experiment=experiment, settled=False)
        .order_by("exposed_at")
        .values_list("exposed_at", flat=True)[: FRESH * LOOKS]
    )
    before = fresh[0] + dt.timedelta(hours=2) - dt.timedelta(microseconds=1)
    figures = {"rebuilding_look_s": _time(lambda: mature_outcomes(before))[1]}
    looks = []
    for look in range(1, LOOKS + 1):
        moment = fresh[look * FRESH - 1] + dt.timedelta(hours=2)
        looks.append(_time(lambda moment=moment: mature_outcomes(moment)))
    found = Observation.objects.filter(experiment=experiment).count()
    if found != rows + FRESH * LOOKS:
        raise SystemExit(f"{found:,} observations instead of {rows + FRESH * LOOKS:,}: the looks did not do their work")
    figures |= _summarise("look", looks)
    membership = MembershipFactory(workspace=experiment.workspace, role="viewer")
    client = Client()
    client.force_login(membership.user)
    place = PLACE.format(slug=SLUG, id=experiment.id)
    for name, path in (("page", place), ("status", f"{place}/status"), ("chart", f"{place}/evidence")):
        client.get(path)
        figures |= _summarise(
            name, [_time(lambda path=path: [_ask(client, path) for _ in range(5)]) for _ in range(5)], 5
        )
    return figures


def _summarise(name: str, times: list[tuple[float, float]], repeats: int = 1) -> dict[str, float]:
    return {
        f"{name}_cpu_s": statistics.median(cpu for cpu, _ in times) / repeats,
        f"{name}_clock_s": statistics.median(clock for _, clock in times) / repeats,
    }


def _time(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the processor, here and in the database's process of this connection, and of the clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    cpu, clock = _read_cpu(backend), time.perf_counter()
    work()
    return _read_cpu(backend) - cpu, time.perf_counter() - clock


def _read_cpu(backend: int) -> float:
    fields = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ask(client: Any, path: str) -> None:
    status = client.get(path).status_code
    if status != 200:
        raise SystemExit(f"{path} answered {status}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 observations")
    quick = parser.parse_args().quick
    rows = 100_000 if quick else 1_000_000
    with large_ledger(rows, fill=fill):
        figures = measure(rows)
    points = [
        (f"a look with {FRESH:,} new units", "look", 1.0),
        ("the experiment's page", "page", 0.150),
        ("  its polled part", "status", 0.150),
        ("  its charts", "chart", 0.150),
    ]
    report = Report("experiment_looks")
    for label, key, bound in points:
        figure, clock = figures[f"{key}_cpu_s"], figures[f"{key}_clock_s"]
        shown = f"{figure:.3f} s (clock {clock:.3f} s)"
        report.add(label, bound=f"<= {bound:g} s", figure=shown, passed=figure <= bound)
    print(f"the first look, which reads all once: {figures['rebuilding_look_s']:.0f} s by the clock")
    shown_figures = {name: round(value, 4) for name, value in figures.items()}
    return report.finish(quick=quick, observations=rows, figures=shown_figures)


if __name__ == "__main__":
    sys.exit(main())
