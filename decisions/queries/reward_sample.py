"""Decisions of an agent over a range of time, each with its newest reward: bounded work, whatever the ledger's size.

A range is cut into stretches, and of each the newest decisions are looked at, LOOK in all. The ids of decisions are
ordered by time, so that each stretch is a range of the agent's index.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connection

from decisions.models import Agent, RewardSpec
from decisions.models.verdicts import VERDICT, WITHDRAWN
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.ids import uuid7_bound
from workspaces.storage.index_order import read_in_index_order

LOOK = 8_000
"""Decisions of a range that are looked at."""
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
MONDAY = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Range:
    """`number` stretches of time, each `step` long; the last one is under way."""

    key: str
    title: str
    short: str
    step: dt.timedelta
    number: int

    @property
    def by(self) -> str:
        return {HOUR: "hour", DAY: "day"}.get(self.step, "week")

    @property
    def most(self) -> int:
        """Decisions of a stretch that are looked at."""
        return LOOK // self.number

    def starts(self, now: dt.datetime) -> list[dt.datetime]:
        """Of each stretch, the oldest first: full hours and days of UTC, and Mondays."""
        last = MONDAY + (now - MONDAY) // self.step * self.step
        return [last - (self.number - 1 - place) * self.step for place in range(self.number)]


RANGES: Mapping[str, Range] = {
    one.key: one
    for one in (
        Range("24h", "Last 24 hours", "24 hours", HOUR, 24),
        Range("7d", "Last 7 days", "7 days", DAY, 7),
        Range("30d", "Last 30 days", "30 days", DAY, 30),
        Range("90d", "Last 90 days", "90 days", DAY, 90),
        Range("1y", "Last 12 months", "12 months", 7 * DAY, 53),
    )
}
DEFAULT_RANGE = "30d"


def parse_range(given: str) -> Range:
    """Raises InvalidInput for one that is not there."""
    if (found := RANGES.get(given or DEFAULT_RANGE)) is None:
        fault = FieldFault("since", f"{given[:40]!r} is unknown", ", ".join(RANGES))
        raise InvalidInput("The range of time is invalid.", faults=[fault])
    return found


@dataclass(frozen=True, slots=True)
class Looked:
    """One decision. `stretch` is its place in the range; `group` what its reward may depend on: its unit, its episode
    or itself. `components` is empty, and `value` None, where it has no reward. `verdict_at`: when its first verdict
    arrived that was not taken back. `queued`: components that wait for a measuring job."""

    stretch: int
    id: uuid.UUID
    recorded_at: dt.datetime
    group: str
    value: float | None
    components: Mapping[str, Any]
    verdict_at: dt.datetime | None
    queued: Sequence[str]


_SAMPLE = f"""
SELECT stretch.place, d.id, d.recorded_at, coalesce(d.unit, d.episode_id::text, d.id::text),
       r.value, r.components::text,
       (SELECT min(f.recorded_at) FROM decisions_feedback f
         WHERE f.workspace_id = %(workspace)s AND f.decision_id = d.id AND f.metric = '{VERDICT}'
           AND NOT EXISTS (SELECT 1 FROM decisions_feedback w WHERE w.decision_id = d.id AND w.supersedes = f.id
                              AND w.metric = '{WITHDRAWN}')),
       (SELECT array_agg(m.component) FROM decisions_measurementdue m
         WHERE m.component = ANY(%(measured)s::text[]) AND m.decision_id = d.id)
  FROM unnest(%(places)s::int[], %(firsts)s::uuid[], %(lasts)s::uuid[]) AS stretch(place, first, last)
 CROSS JOIN LATERAL (
   SELECT id, recorded_at, unit, episode_id FROM decisions_decision
    WHERE agent_id = %(agent)s AND id >= stretch.first AND id < stretch.last ORDER BY id DESC LIMIT %(most)s) d
  LEFT JOIN LATERAL (
   SELECT value, components FROM decisions_reward
    WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1) r ON true
"""  # noqa: S608 - our own names
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def look_at_decisions(
    agent: Agent, spec: RewardSpec, time: Range, *, now: dt.datetime, measured: Sequence[str]
) -> list[Looked]:
    """The newest `time.most` of each stretch, in one statement. `measured`: components that jobs measure."""
    starts = time.starts(now)
    ends = [*starts[1:], now + DAY]  # a client's clock may be ahead
    with read_in_index_order(), connection.cursor() as cursor:
        cursor.execute(
            _SAMPLE,
            {
                "workspace": agent.workspace_id,
                "agent": agent.id,
                "spec": spec.id,
                "places": list(range(time.number)),
                "firsts": [uuid7_bound(start) for start in starts],
                "lasts": [uuid7_bound(end) for end in ends],
                "most": time.most,
                "measured": list(measured),
            },
        )
        return [
            Looked(place, pk, recorded, group, value, _decode(parts) if parts else {}, verdict, queued or ())
            for place, pk, recorded, group, value, parts, verdict, queued in cursor.fetchall()
        ]
