"""Links a trace's model calls to the gateway's decisions that answered them, and gives a trace's decisions its unit.

One call is one decision, whichever arrives first: the gateway's answer carries the id of its decision (`chatcmpl-…`,
`resp_…`), and so does the span of whoever asked. A call that is still open will be a decision: its step names it, and
the decision finds the step when it is recorded.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from decisions.models import Decision
from decisions.models.tombstones import ERASED_HASH
from models_registry.models import Call, CallState
from workspaces.access.actors import Actor


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of the gateway by their decisions: those that are recorded, those whose content was erased, and those
    that are still being given."""

    recorded: frozenset[uuid.UUID] = frozenset()
    erased: frozenset[uuid.UUID] = frozenset()
    coming: frozenset[uuid.UUID] = frozenset()


def find_answers(by: Actor, ids: Collection[uuid.UUID]) -> Answers:
    """Which of the ids that spans carry are the gateway's. The open calls stay locked until the transaction ends, so
    that one of them and its decision do not miss each other."""
    if not ids:
        return Answers()
    calls = Call.objects.for_workspace(by.workspace).filter(id__in=ids, state=CallState.OPEN)
    coming = set(calls.select_for_update().order_by("id").values_list("id", flat=True))
    rows = Decision.objects.for_workspace(by.workspace).filter(id__in=ids).values_list("id", "content_hash")
    there = {row: bytes(digest) == ERASED_HASH for row, digest in rows}
    erased = frozenset(row for row, gone in there.items() if gone)
    return Answers(frozenset(there) - erased, erased, frozenset(coming - there.keys()))


# A decision without a unit of its own has its id as its unit, by which the gateway draws; in an experiment that is the
# unit of its exposure, and stays.
_LINK = """
UPDATE decisions_decision d
   SET episode_id = coalesce(d.episode_id, t.episode),
       unit = CASE WHEN t.unit <> '' AND (d.unit IS NULL OR d.unit = d.id::text AND d.exposure_id IS NULL)
                   THEN t.unit ELSE d.unit END
  FROM (
    SELECT DISTINCT ON (s.decision_id) s.decision_id AS id, e.id AS episode,
           CASE WHEN %(framed)s::uuid[] IS NULL OR e.id = ANY(%(framed)s) THEN e.unit ELSE '' END AS unit
      FROM decisions_step s JOIN decisions_episode e ON e.id = s.episode_id
     WHERE {which} AND s.workspace_id = %(workspace)s AND s.decision_id IS NOT NULL AND e.trace IS NOT NULL
     ORDER BY s.decision_id, s.id
  ) t
 WHERE d.id = t.id AND d.workspace_id = %(workspace)s AND d.content_hash <> %(erased)s
   AND (d.episode_id IS NULL
        OR t.unit <> '' AND (d.unit IS NULL OR d.unit = d.id::text AND d.exposure_id IS NULL))
"""


def link_traces(by: Actor, episodes: Collection[uuid.UUID], framed: Collection[uuid.UUID]) -> None:
    """The decisions of these traces' steps: to their episodes, and in those that are `framed` to the episode's unit,
    where they have none. The episodes are locked."""
    _link(by, "s.episode_id = ANY(%(ids)s)", episodes, list(framed))


def link_decision(by: Actor, decision_id: uuid.UUID) -> None:
    """A decision that is recorded after the step that names it."""
    _link(by, "s.decision_id = ANY(%(ids)s)", [decision_id], None)


def _link(by: Actor, which: str, ids: Collection[uuid.UUID], framed: list[uuid.UUID] | None) -> None:
    values = {"ids": list(ids), "framed": framed, "workspace": by.workspace.id, "erased": ERASED_HASH}
    with connection.cursor() as cursor:
        cursor.execute(_LINK.format(which=which), values)
