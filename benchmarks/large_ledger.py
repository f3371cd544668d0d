"""A ledger of a million decisions, for what is measured over one: `benchmarks.browse` and `benchmarks.export`.

Two workspaces, nine tenths of the rows in the first; 85 days, so four monthly partitions; six agents, of which one
(`archivist`) decided little and long ago and one (`idle`) nothing; 50,000 units, 100,000 items, 5,000 people; feedback
on half, labels, rewards, an experiment's exposures, and episodes with steps. It is made by statements of SQL from fixed
seeds, in the order of arrival, and is the same each time but for the random bits of ids. `large_ledger(rows, keep)`
gives the slug of the first workspace; with `keep`, a folder, servers and ledger lie there and are taken as they are the
next time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.db import connection

SLUG, FOREIGN = "bench-0", "bench-1"
DAYS = 85
WORDS = (
    "invoice payment flight hotel doctor meeting report garden recipe school train ticket budget salary contract lamp "
    "insurance holiday passport repair kitchen dentist project deadline review customer supplier order delivery return "
    "question answer note reminder birthday present concert museum bicycle engine garage window roof water electricity "
    "letter stamp bank account transfer receipt refund discount price offer shop market bread cheese apple orange pear "
    "monday tuesday wednesday thursday friday saturday sunday morning evening north south east west river mountain sea"
)
OPTIONS = '["finance", "travel", "health", "work", "home"]'
# slug, kind, from and to which of 1,000 shares
AGENTS = (
    ("filer", "FILER", 0, 400),
    ("librarian", "LIBRARIAN", 400, 600),
    ("prioritizer", "PRIORITIZER", 600, 750),
    ("retriever", "RETRIEVER", 750, 950),
    ("storer", "STORER", 950, 999),
    ("archivist", "CUSTOM", 999, 1000),
    ("idle", "CUSTOM", 1000, 1000),
)

# A uuid7 of a moment (milliseconds since 1970) with random bits below it: PostgreSQL before 18 has no such function.
UUID7 = """(lpad(to_hex({ms}), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
            || '8' || substr(md5(random()::text), 1, 15))::uuid"""
_MS = "(extract(epoch FROM {0}) * 1000)::bigint"
_MOMENTS = """
CREATE TEMP TABLE bench_moment AS
SELECT i, CASE WHEN i %% 10 = 0 THEN 1 ELSE 0 END AS place,
       CASE WHEN share = 999 AND i > 0.3 * %(rows)s THEN 0 ELSE share END AS share,
       ((extract(epoch FROM %(now)s::timestamptz) - %(seconds)s::float8 * (%(rows)s - i) / %(rows)s)
        * 1000)::bigint AS ms
  FROM (SELECT i, (i * 7919::bigint %% 1000)::int AS share FROM generate_series(1, %(rows)s) i) s
"""
_EPISODES = f"""
INSERT INTO decisions_episode (id, workspace_id, agent_id, external_id, trace, session, unit, query, final_response,
                               started_at, changed_at)
SELECT {UUID7.format(ms="m.ms")}, a.workspace_id, a.agent_id, CASE WHEN m.i %% 3 > 0 THEN 'mailbox-' || m.i ELSE '' END,
       CASE WHEN m.i %% 3 = 0 THEN md5(m.i::text) END,
       CASE WHEN m.i %% 20 = 1 THEN 'session-' || m.i / 200 ELSE '' END, 'user-' || m.i * 31::bigint %% 50000,
       t.text, '', to_timestamp(m.ms / 1000.0), to_timestamp(m.ms / 1000.0)
  FROM bench_moment m
  JOIN bench_agent a ON a.place = m.place AND m.share >= a.low AND m.share < a.high
  JOIN bench_text t ON t.n = m.i %% 2000
 WHERE m.i %% 10 = 1 OR m.i %% 100 = 0
 ORDER BY m.i
"""
_DECISIONS = f"""
INSERT INTO decisions_decision
  (id, workspace_id, agent_id, agent_version_id, episode_id, step_number, unit, external_id, item_ref, project_ref,
   user_ref, state, options, action, reasoning, confidence, propensity, policy_name, model_version_id, exposure_id,
   latency_ms, tokens_in, tokens_out, observed_at, recorded_at, content_hash)
SELECT {UUID7.format(ms="m.ms")}, a.workspace_id, a.agent_id, a.version_id, e.id,
       CASE WHEN e.id IS NOT NULL THEN m.i %% 10 END, c.unit,
       CASE WHEN m.i %% 3 = 0 THEN 'order-' || m.i END,
       CASE WHEN m.i %% 10 < 7 THEN 'item-' || m.i * 17::bigint %% 100000 END,
       'opus-' || m.i %% 500, 'person-' || m.i * 13::bigint %% 5000,
       jsonb_build_object('title', t.text, 'number', m.i, 'text',
         CASE WHEN m.i = 1000 THEN 'zanzibar ' ELSE '' END || CASE WHEN m.i %% 1000 = 1 THEN 'saffron ' ELSE '' END
         || s.text || ' ' || r.text),
       '{OPTIONS}'::jsonb, ('{OPTIONS}'::jsonb) -> (m.i %% 5), CASE WHEN m.i %% 5 < 2 THEN r.text END,
       random(), 0.1 + 0.8 * random(),
       CASE WHEN c.policy IS NULL THEN 'outside' END, c.policy, x.id, 10 + m.i %% 50, 50 + m.i %% 400, 2,
       to_timestamp(m.ms / 1000.0), to_timestamp(m.ms / 1000.0), sha256(m.i::text::bytea)
  FROM bench_moment m
  JOIN bench_agent a ON a.place = m.place AND m.share >= a.low AND m.share < a.high
  CROSS JOIN LATERAL (
    SELECT CASE WHEN m.i = 1001 THEN 'user-once' WHEN m.i %% 20 = 3 THEN 'user-busy'
                ELSE 'user-' || m.i * 31::bigint %% 50000 END AS unit,
           CASE WHEN m.i %% 2 = 1 THEN CASE WHEN m.i < %(rows)s / 2 THEN a.older_id ELSE a.newer_id END END AS policy) c
  JOIN bench_text t ON t.n = m.i %% 2000
  JOIN bench_text s ON s.n = m.i * 13::bigint %% 1999
  JOIN bench_text r ON r.n = m.i * 29::bigint %% 1997
  LEFT JOIN decisions_episode e ON m.i %% 10 IN (1, 2, 3) AND e.external_id = 'mailbox-' || m.i / 10 * 10 + 1
        AND e.workspace_id = a.workspace_id
  LEFT JOIN models_registry_exposure x ON m.place = 0 AND m.share < 400 AND m.i > 0.7 * %(rows)s AND x.unit = c.unit
 ORDER BY m.i
"""
_STEPS = f"""
INSERT INTO decisions_step (id, workspace_id, episode_id, decision_id, kind, name, arguments, result, success, error,
                            reasoning_type, content, model, started_at, duration_ms, recorded_at, content_hash)
SELECT {UUID7.format(ms=_MS.format("d.recorded_at") + " - s.k * 40")}, d.workspace_id, d.episode_id,
       CASE WHEN s.k = 1 THEN d.id END, CASE WHEN s.k = 1 THEN 'llm_call' ELSE 'tool_call' END,
       CASE WHEN s.k = 1 THEN 'chat' ELSE 'search_notes' END, '{{"query": "which folder"}}', d.action,
       f.failed IS FALSE, CASE WHEN f.failed THEN 'no such note' ELSE '' END, '', '', '',
       d.recorded_at - s.k * interval '40 ms', 30, d.recorded_at, d.content_hash
  FROM decisions_decision d CROSS JOIN generate_series(1, 2) AS s(k)
  CROSS JOIN LATERAL (SELECT s.k = 2 AND get_byte(d.content_hash, 1) < 3 AS failed) f
 WHERE d.episode_id IS NOT NULL
"""
# Overridden is rare, and nobody has overridden anything for weeks.
_FEEDBACK = f"""
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                idempotency_key, content_hash)
SELECT {UUID7.format(ms=_MS.format("d.recorded_at"))}, d.workspace_id, d.id, 'verdict',
       CASE WHEN c.b = 0 AND d.recorded_at < %(now)s::timestamptz - interval '60 days' THEN '"overridden"'::jsonb
            WHEN c.b < 80 THEN '"confirmed"' WHEN c.b < 120 THEN '"corrected"' ELSE '"ignored"' END, 'human',
       least(d.recorded_at + c.b * interval '1 minute', %(now)s),
       least(d.recorded_at + c.b * interval '1 minute', %(now)s), 'k', d.content_hash
  FROM decisions_decision d CROSS JOIN LATERAL (SELECT get_byte(d.content_hash, 0) AS b) c
 WHERE c.b < 128
"""
_OTHER_FEEDBACK = f"""
INSERT INTO decisions_feedback (id, workspace_id, decision_id, metric, value, source, observed_at, recorded_at,
                                content_hash)
SELECT {UUID7.format(ms=_MS.format("d.recorded_at"))}, d.workspace_id, d.id, 'stars',
       to_jsonb(get_byte(d.content_hash, 3) %% 5), 'human', d.recorded_at, d.recorded_at, d.content_hash
  FROM decisions_decision d WHERE get_byte(d.content_hash, 2) < 26
"""
_LABELS = f"""
INSERT INTO decisions_label (id, workspace_id, decision_id, verdict, note, program, created_at)
SELECT {UUID7.format(ms=_MS.format("d.recorded_at"))}, d.workspace_id, d.id, 'confirmed', '', '', d.recorded_at
  FROM decisions_decision d WHERE get_byte(d.content_hash, 4) < 5
"""
_REWARDS = """
INSERT INTO decisions_reward (workspace_id, decision_id, spec_id, version, value, raw, components, feedback_until,
                              computed_at)
SELECT f.workspace_id, f.decision_id, a.spec_id, 1, 0.75, 1.0, '{"verdict": {"value": 1.0}}', f.recorded_at,
       date_trunc('day', f.recorded_at) + interval '26 hours'
  FROM decisions_feedback f JOIN decisions_decision d ON d.id = f.decision_id JOIN bench_agent a USING (agent_id)
 WHERE f.metric = 'verdict' AND f.recorded_at < date_trunc('day', %(now)s::timestamptz)
"""
_ITEMS = """
INSERT INTO decisions_item (id, workspace_id, ref, title, status, swimlane, priority, labels, project_ref, cycles,
                            blocked)
SELECT gen_random_uuid(), w.id, 'item-' || n, 'Item ' || n, 'DONE', '', '', '[]', '', 0, false
  FROM generate_series(0, 99999, 2) n, workspaces_workspace w WHERE w.slug = %(slug)s
"""
_CHANGES = """
INSERT INTO decisions_statuschange (id, workspace_id, item_id, external_id, from_status, to_status, outcome, cycles,
                                    blocked, abandoned, verdict, applied_at, observed_at, recorded_at, content_hash)
SELECT gen_random_uuid(), i.workspace_id, i.id, 'change-' || i.ref, 'TODO', 'DONE', 'DONE', 0, false, false, '',
       CASE WHEN i.ref NOT LIKE 'item-%%00' THEN %(now)s::timestamptz - interval '2 days' END, %(now)s, %(now)s,
       sha256(i.ref::bytea)
  FROM decisions_item i
"""
_EXPOSURES = f"""
INSERT INTO models_registry_exposure (id, workspace_id, experiment_id, phase_id, unit, arm, assignment_probability,
                                      version_id, served_arm, fallback, exposed_at)
SELECT {UUID7.format(ms=_MS.format("now()"))}, %(workspace)s, %(experiment)s, %(phase)s, 'user-' || n, arm, 0.5,
       %(version)s, arm, false, %(now)s::timestamptz - interval '25 days'
  FROM generate_series(0, 4999) n
  CROSS JOIN LATERAL (SELECT CASE WHEN n %% 2 = 0 THEN 'control' ELSE 'treatment' END AS arm) a
"""
TABLES = ("decision", "step", "feedback", "reward", "episode", "label", "item", "statuschange")


def fill(rows: int, now: dt.datetime) -> None:
    """The whole ledger; says how long each part took."""
    from decisions.partitions.partitioning import MONTHS_AHEAD, ensure_partitions, month_start

    ensure_partitions(month_start(now, -MONTHS_AHEAD - 1))
    ensure_partitions(now)
    rng, words = random.Random(0), WORDS.split()
    known: dict[str, Any] = {"rows": rows, "now": now, "seconds": DAYS * 86_400.0, "slug": SLUG}
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.5)")
        cursor.execute("CREATE TEMP TABLE bench_text (n int PRIMARY KEY, text text)")
        cursor.executemany(
            "INSERT INTO bench_text VALUES (%s, %s)",
            [(n, " ".join(rng.choice(words) for _ in range(rng.randrange(8, 30)))) for n in range(2000)],
        )
        cursor.execute(
            "CREATE TEMP TABLE bench_agent (place int, slug text, low int, high int, workspace_id uuid, agent_id uuid,"
            " version_id uuid, spec_id uuid, older_id uuid, newer_id uuid)"
        )
        for place, slug in enumerate((SLUG, FOREIGN)):
            _make_agents(cursor, place, slug)
        cursor.execute(_MOMENTS, known)
        cursor.execute("ANALYZE bench_moment")
        statements = (
            ("exposures", _EXPOSURES), ("episodes", _EPISODES), ("decisions", _DECISIONS), ("steps", _STEPS),
            ("verdicts", _FEEDBACK), ("stars", _OTHER_FEEDBACK), ("labels", _LABELS), ("rewards", _REWARDS),
            ("items", _ITEMS), ("status changes", _CHANGES),
        )  # fmt: skip
        for name, statement in statements:
            began = time.monotonic()
            more = _experiment(now) if name == "exposures" else {}
            cursor.execute(statement, known | more)
            print(f"{cursor.rowcount:>10,} {name} in {time.monotonic() - began:.0f} s", flush=True)
            cursor.execute(f"ANALYZE decisions_{'episode' if name == 'episodes' else 'decision'}")
        began = time.monotonic()
        for table in TABLES:
            cursor.execute(f"VACUUM (ANALYZE) decisions_{table}")
        cursor.execute("ANALYZE")
        cursor.execute("CHECKPOINT")
        print(f"           vacuumed in {time.monotonic() - began:.0f} s", flush=True)


def _make_agents(cursor: Any, place: int, slug: str) -> None:
    from tools.factories import (
        AgentFactory,
        AgentVersionFactory,
        AliasFactory,
        ModelVersionFactory,
        RewardSpecFactory,
        WorkspaceFactory,
    )

    workspace = WorkspaceFactory(slug=slug)
    for name, kind, low, high in AGENTS:
        agent = AgentFactory(workspace=workspace, slug=name, kind=kind)
        version, spec = AgentVersionFactory(agent=agent), RewardSpecFactory(agent=agent)
        older, newer = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
        AliasFactory(version=newer)
        cursor.execute(
            "INSERT INTO bench_agent VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [place, name, low, high, workspace.id, agent.id, version.id, spec.id, older.id, newer.id],
        )


def _experiment(now: dt.datetime) -> dict[str, Any]:
    from decisions.models import Agent
    from tools.factories import PhaseFactory

    agent = Agent.objects.get(workspace__slug=SLUG, slug="filer")
    phase = PhaseFactory(experiment__registered_model=agent.registered_model)
    version = agent.registered_model.versions.first()
    return {
        "workspace": agent.workspace_id,
        "experiment": phase.experiment_id,
        "phase": phase.id,
        "version": version.id,
    }


@contextlib.contextmanager
def large_ledger(
    rows: int, keep: Path | None = None, *, fill: Callable[[int, dt.datetime], None] = fill
) -> Iterator[str]:
    """The slug of the workspace to look at. Sets Django up: call it before anything of the project is imported. `fill`
    makes another ledger than this module's; it is kept apart by `keep` only."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        os.environ |= {"RECKONER_TEST_VAR": str(keep), "RECKONER_TEST_SESSION": f"ledger_{rows}"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings_test"
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    made = _create_database()
    try:
        if made:
            call_command("migrate", verbosity=0)
            try:
                fill(rows, timezone.now())
            except BaseException:
                keep = None  # half a ledger is of no use to anyone
                raise
        yield SLUG
    finally:
        connection.close()
        if keep is None:
            _on_server(f'DROP DATABASE "{connection.settings_dict["NAME"]}" WITH (FORCE)')


def _on_server(statement: str) -> None:
    import psycopg

    known = connection.get_connection_params() | {"dbname": "postgres"}
    for name in ("cursor_factory", "context"):
        known.pop(name, None)
    with psycopg.connect(**known, autocommit=True) as server:
        server.execute(statement)


def _create_database() -> bool:
    """True when it was not there."""
    import psycopg

    try:
        _on_server(f'CREATE DATABASE "{connection.settings_dict["NAME"]}"')
    except psycopg.errors.DuplicateDatabase:
        return False
    return True
