"""Calculates rewards by set-based SQL: every decision with new feedback, in one statement.

The components' SQL computes what `components.py` computes for one decision; a test compares them. A component that
fails stores its error, and the decision gets no value: a failure is never 0.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from psycopg import sql

from decisions.models import RewardSpec
from decisions.models.verdicts import LATEST_FIRST, STANDS, VERDICT
from decisions.rewards.components import VERDICT_VALUES

# A transaction that began earlier may commit later: look back further than any of ours lasts.
OVERLAP = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class SqlComponent:
    """`value` is NULL while nothing is known; `error` is NULL unless the component cannot be computed."""

    value: str
    error: str


_VERDICT_CASE = "CASE verdict " + " ".join(f"WHEN '{k}' THEN {v}" for k, v in VERDICT_VALUES.items()) + " END"

SQL_COMPONENTS: Mapping[str, SqlComponent] = {
    "verdict": SqlComponent(
        value=_VERDICT_CASE,
        error=f"CASE WHEN verdict IS NOT NULL AND {_VERDICT_CASE} IS NULL THEN 'unknown verdict ' || verdict END",
    ),
    "calibration": SqlComponent(
        value=(
            # PostgreSQL refuses a product that underflows, and one such decision would stop the calculation of all.
            "CASE WHEN verdict <> 'ignored' THEN -abs(CASE WHEN confidence < 1e-12 THEN 0 ELSE confidence END"
            " - CASE WHEN verdict = 'confirmed' THEN 1 ELSE 0 END) END"
        ),
        error="CASE WHEN verdict <> 'ignored' AND confidence IS NULL THEN 'the decision carries no confidence' END",
    ),
}

_CALCULATE = f"""
WITH due AS (
  {{due}}
), known AS (
  SELECT d.id, d.confidence, f.verdict, f.feedback_until
    FROM due
    JOIN decisions_decision d ON d.id = due.id AND d.agent_id = %(agent)s
    CROSS JOIN LATERAL (
      SELECT (array_agg(b.value #>> '{{{{}}}}' ORDER BY {LATEST_FIRST.format("b")})
                FILTER (WHERE b.metric = '{VERDICT}'))[1] AS verdict,
             max(b.recorded_at) AS feedback_until
        FROM decisions_feedback b
       WHERE b.decision_id = d.id AND b.workspace_id = d.workspace_id
         AND b.recorded_at <= due.as_of
         AND {STANDS.format("b", " AND later.recorded_at <= due.as_of")}
    ) f
   WHERE f.feedback_until IS NOT NULL
), valued AS (
  SELECT id, feedback_until, {{columns}} FROM known
), summed AS (
  SELECT id, feedback_until,
         jsonb_strip_nulls(jsonb_build_object({{objects}})) AS components,
         ({{any_error}}) AS failed,
         CASE WHEN NOT ({{any_error}}) AND ({{any_value}})
              THEN greatest(-%(clamp)s::float8, least(%(clamp)s::float8, {{weighted}})) END AS raw
    FROM valued
), finished AS (
  SELECT id, feedback_until, components, raw,
         -- greatest and least pass over NULL: without the CASE a failed component would earn the full reward.
         CASE WHEN raw IS NOT NULL
              THEN greatest(0, least(1, (raw - %(low)s::float8) / (%(high)s::float8 - %(low)s::float8))) END AS value
    FROM summed
)
"""  # noqa: S608 - our own names
_DUE = """
  SELECT DISTINCT f.decision_id AS id, 'infinity'::timestamptz AS as_of
    FROM decisions_feedback f
   WHERE f.workspace_id = %(workspace)s AND f.decision_id IS NOT NULL AND f.recorded_at > %(since)s
  UNION
  -- Feedback may be there before its decision: a decision that has just arrived is due as well.
  SELECT d.id, 'infinity'::timestamptz
    FROM decisions_decision d
   WHERE d.agent_id = %(agent)s AND d.recorded_at > %(since)s
"""
_ALL = """
  SELECT DISTINCT f.decision_id AS id, 'infinity'::timestamptz AS as_of
    FROM decisions_feedback f
   WHERE f.workspace_id = %(workspace)s AND f.decision_id IS NOT NULL
"""
_STORE = """
INSERT INTO decisions_reward
  (workspace_id, decision_id, spec_id, version, value, raw, components, feedback_until, computed_at)
SELECT %(workspace)s, n.id, %(spec)s, coalesce(last.version, 0) + 1, n.value, n.raw, n.components, n.feedback_until,
       clock_timestamp()
{changed}
ON CONFLICT DO NOTHING
"""
_CHANGED = """
  FROM finished n
  LEFT JOIN LATERAL (
    SELECT r.version, r.components, r.raw FROM decisions_reward r
     WHERE r.decision_id = n.id AND r.spec_id = %(spec)s ORDER BY r.version DESC LIMIT 1
  ) last ON true
 -- Nothing known is no row; known before and withdrawn since is one, without a value.
 WHERE (n.components <> '{{}}'::jsonb OR last.version IS NOT NULL)
   AND (last.version IS NULL OR last.components IS DISTINCT FROM n.components OR last.raw IS DISTINCT FROM n.raw)
"""
_AS_OF = "SELECT f.id, f.value FROM finished f WHERE f.value IS NOT NULL"
# The due set of outcomes, which ask for certain decisions, each at the moment its unit matured.
_GIVEN = "SELECT g.id, g.as_of FROM unnest(%(decisions)s::uuid[], %(moments)s::timestamptz[]) AS g(id, as_of)"


def _build(spec: RewardSpec, due: str) -> sql.Composed:
    """The statement's common part for one spec. Names and weights are ours or checked; values go as parameters."""
    columns, objects, errors, values, weighted = [], [], [], [], []
    for number, component in enumerate(spec.components):
        known = SQL_COMPONENTS[component["name"]]
        value, error = sql.Identifier(f"v{number}"), sql.Identifier(f"e{number}")
        columns += [
            sql.SQL("({})::float8 AS {}").format(sql.SQL(known.value), value),
            sql.SQL("({})::text AS {}").format(sql.SQL(known.error), error),
        ]
        objects.append(
            sql.SQL(
                "{name}, CASE WHEN {error} IS NOT NULL THEN jsonb_build_object('error', {error})"
                " WHEN {value} IS NOT NULL THEN jsonb_build_object('value', {value}) END"
            ).format(name=sql.Literal(component["name"]), error=error, value=value)
        )
        errors.append(sql.SQL("{} IS NOT NULL").format(error))
        values.append(sql.SQL("{} IS NOT NULL").format(value))
        weighted.append(sql.SQL("{}::float8 * coalesce({}, 0)").format(sql.Literal(component["weight"]), value))
    return sql.SQL(_CALCULATE).format(
        due=sql.SQL(due),
        columns=sql.SQL(", ").join(columns),
        objects=sql.SQL(", ").join(objects),
        any_error=sql.SQL(" OR ").join(errors),
        any_value=sql.SQL(" OR ").join(values),
        weighted=sql.SQL(" + ").join(weighted),
    )


def _parameters(spec: RewardSpec, **more: Any) -> dict[str, Any]:
    return {
        "workspace": spec.workspace_id,
        "agent": spec.agent_id,
        "spec": spec.id,
        "clamp": spec.clamp,
        "low": spec.low,
        "high": spec.high,
        **more,
    }


@transaction.atomic
def calculate_rewards(spec: RewardSpec) -> int:
    """Writes a reward version for each decision of the agent whose feedback changed it; returns how many.

    Running it again changes nothing. Decisions are found by feedback recorded since the newest reward of the spec.
    """
    with connection.cursor() as cursor:
        # Two calculations of one spec would give the same version number twice; the second waits and finds nothing new.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"rewards:{spec.id}"])
        due, since = _since_last(spec, cursor)
        store = sql.SQL(_STORE).format(changed=sql.SQL(_CHANGED).format())
        cursor.execute(_build(spec, due) + store, _parameters(spec, since=since))
        return int(cursor.rowcount)


def count_pending(spec: RewardSpec) -> int:
    """How many reward versions a calculation would write now. It costs as much, but for the writing."""
    with connection.cursor() as cursor:
        due, since = _since_last(spec, cursor)
        counted = sql.SQL("SELECT count(*)") + sql.SQL(_CHANGED).format()
        cursor.execute(_build(spec, due) + counted, _parameters(spec, since=since))
        return int(cursor.fetchone()[0])


def _since_last(spec: RewardSpec, cursor: Any) -> tuple[str, dt.datetime | None]:
    """The due set of the next calculation, and from when it looks at feedback."""
    cursor.execute("SELECT max(feedback_until) FROM decisions_reward WHERE spec_id = %s", [spec.id])
    newest = cursor.fetchone()[0]
    return (_ALL, None) if newest is None else (_DUE, newest - OVERLAP)


def rewards_as_of(spec: RewardSpec, moments: Mapping[uuid.UUID, dt.datetime]) -> dict[uuid.UUID, float]:
    """What each decision was worth by the feedback recorded until its moment; those without a value are left out."""
    parameters = _parameters(spec, decisions=list(moments), moments=list(moments.values()))
    with connection.cursor() as cursor:
        cursor.execute(_build(spec, _GIVEN) + sql.SQL(_AS_OF), parameters)
        return dict(cursor.fetchall())
