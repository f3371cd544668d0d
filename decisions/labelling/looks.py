"""Looks at a part of the ledger for a queue: which ids there are, which of them it may ask about, in which order.

`decisions.labelling.filling` moves a queue's bounds along the ids and makes items of what a look finds.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from django.db import connection

from decisions.labelling.ranking import Candidate, Cell, EpisodeCandidate, rank_candidates, rank_episodes
from decisions.labelling.wording import text_of
from decisions.models import LabelQueue, QueueStrategy, QueueSubject
from decisions.models.tombstones import NOT_ERASED, PSEUDONYM_PREFIX
from decisions.models.verdicts import EPISODE_HAS_VERDICT
from decisions.queries import browse, episode_list
from decisions.queries.browse import NO_VERDICT, NewestDecisions

NEWEST_LABELS = 2_000
"""How many labels of the workspace say which cells are labelled."""


Arrival = tuple[dt.datetime, uuid.UUID]
"""The server's time, and the id of what arrived then."""


class Look(Protocol):
    def walk(self, *, most: int, after: uuid.UUID | None = None, before: uuid.UUID | None = None) -> list[uuid.UUID]:
        """Ids behind one of the two, the nearest to it, in ascending order; with neither the newest."""

    def walk_late(
        self, *, most: int, since: Arrival, between: tuple[uuid.UUID, uuid.UUID], settled: dt.timedelta
    ) -> list[Arrival]:
        """Of those that arrived more than `settled` later than their ids say, in the order of arrival: what lies behind
        the arrival `since`, with an id above the first of `between`, up to the second."""

    def find(self, walked: Sequence[uuid.UUID]) -> Sequence[Any]:
        """Those that the queue may ask about, in the order of their ids, each with its `subject`'s id."""

    def rank(self, found: Sequence[Any]) -> list[float]:
        """Of some of what was found; the lowest is asked first."""


# An id that is older than its arrival: the first 48 bits of a uuid7 are its milliseconds.
_LATE = """
SELECT recorded_at, id FROM decisions_decision
 WHERE {inside} AND recorded_at >= %(late_at)s AND (recorded_at, id) > (%(late_at)s, %(late_id)s)
   AND id > %(oldest)s AND id <= %(newest)s
   AND id < (lpad(to_hex((extract(epoch FROM recorded_at - %(settled)s) * 1000)::bigint), 12, '0')
             || repeat('0', 20))::uuid
 ORDER BY recorded_at, id LIMIT %(most)s
"""


class DecisionLook:
    """Without a verdict of its own, a queue asks about decisions that have none."""

    def __init__(self, queue: LabelQueue) -> None:
        self.queue = queue
        given = {name: value for name, value in queue.filters.items() if name in browse.FILTERS}
        self.filters = browse.Filters(**{"verdict": NO_VERDICT} | given)
        self.search = browse.read_search(queue.workspace, self.filters.q)

    def walk(self, *, most: int, after: uuid.UUID | None = None, before: uuid.UUID | None = None) -> list[uuid.UUID]:
        look = self._look(most, ascending=after is not None)
        if after is not None:
            look.put("id > %(after)s", after=after)
        elif before is not None:
            look.put("id < %(before)s", before=before)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT array_agg(id ORDER BY id) FROM ({look.walk('id')}) d", look.values)  # noqa: S608
            return cursor.fetchone()[0] or []

    def walk_late(
        self, *, most: int, since: Arrival, between: tuple[uuid.UUID, uuid.UUID], settled: dt.timedelta
    ) -> list[Arrival]:
        look = self._look(most)
        arrived: dict[str, Any] = {"late_at": since[0], "late_id": since[1], "settled": settled}
        bounds = {"oldest": between[0], "newest": between[1]}
        with connection.cursor() as cursor:
            cursor.execute(_LATE.format(inside=" AND ".join(look.inside)), {**look.values, **arrived, **bounds})
            return cursor.fetchall()

    def find(self, walked: Sequence[uuid.UUID]) -> list[Candidate]:
        look = self._look(len(walked))
        # The bounds leave the other months' partitions out.
        look.put("id BETWEEN %(low)s AND %(high)s AND id = ANY(%(walked)s)", low=min(walked), high=max(walked))
        look.values["walked"] = list(walked)
        look.columns |= {"confidence", "agent_id", "action"}
        read = "NULL"
        if self.queue.strategy == QueueStrategy.DIVERSITY:
            look.columns.add("state")
            read = "d.state"
        rows = look.run(f"d.id, d.confidence, d.agent_id, d.action::text, {read}", "ORDER BY d.id")
        return [
            Candidate(pk, confidence, (agent, action), text_of(json.loads(state)) if state else "")
            for pk, confidence, agent, action, state in rows
        ]

    def rank(self, found: Sequence[Candidate]) -> list[float]:
        labelled = _count_cells(self.queue) if found and self.queue.strategy == QueueStrategy.VALUE else Counter()
        return rank_candidates(self.queue.strategy, found, labelled=labelled, salt=self.queue.id)

    def _look(self, most: int, *, ascending: bool = False) -> NewestDecisions:
        look = NewestDecisions(self.queue.workspace, self.filters, most=most, search=self.search, ascending=ascending)
        look.put(NOT_ERASED)
        return look


def _count_cells(queue: LabelQueue) -> Counter[Cell]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT d.agent_id, d.action::text, count(*)
                 FROM (SELECT decision_id FROM decisions_label
                        WHERE workspace_id = %s AND decision_id IS NOT NULL ORDER BY id DESC LIMIT %s) l
                 JOIN decisions_decision d ON d.id = l.decision_id GROUP BY 1, 2""",
            [queue.workspace_id, NEWEST_LABELS],
        )
        return Counter({(agent, action): count for agent, action, count in cursor.fetchall()})


_SPREAD = """(
  SELECT greatest(max(r.raw), 0) - least(min(r.raw), 0) FROM decisions_decision d CROSS JOIN LATERAL (
    SELECT r.raw FROM decisions_reward r JOIN decisions_rewardspec s ON s.id = r.spec_id
     WHERE r.decision_id = d.id ORDER BY s.number DESC, r.version DESC LIMIT 1) r
   WHERE d.episode_id = e.id)"""
_EPISODES = f"""
SELECT e.id, (SELECT min(d.confidence) FROM decisions_decision d WHERE d.episode_id = e.id), {{spread}}
  FROM decisions_episode e
 WHERE e.id = ANY(%(ids)s) AND e.external_id <> %(erased)s || e.id AND NOT {EPISODE_HAS_VERDICT}
 ORDER BY e.id
"""  # noqa: S608 - our own names


class EpisodeLook:
    """A queue asks about episodes without a verdict, ended or not: many senders never say that one has ended."""

    def __init__(self, queue: LabelQueue) -> None:
        self.queue = queue
        self.filters = episode_list.parse_filters(queue.filters)

    def walk(self, *, most: int, after: uuid.UUID | None = None, before: uuid.UUID | None = None) -> list[uuid.UUID]:
        found = episode_list.walk_episodes(self.queue.workspace, self.filters, after=after, before=before)
        order = "id" if after is not None else "-id"
        return sorted(found.order_by(order).values_list("id", flat=True)[:most])

    def walk_late(self, **_: Any) -> list[Arrival]:
        """None: an episode's id is of when it was first heard of."""
        return []

    def find(self, walked: Sequence[uuid.UUID]) -> list[EpisodeCandidate]:
        ids = list(walked)
        if self.filters.state == "failed":
            of_session = episode_list.Filters(session=self.filters.session)
            episodes = episode_list.walk_episodes(self.queue.workspace, of_session).filter(id__in=ids)
            ids = list(episode_list.with_failures(episodes).values_list("id", flat=True))
        spread = _SPREAD if self.queue.strategy == QueueStrategy.VALUE else "0"
        with connection.cursor() as cursor:
            cursor.execute(_EPISODES.format(spread=spread), {"ids": ids, "erased": PSEUDONYM_PREFIX})
            return [EpisodeCandidate(*row) for row in cursor.fetchall()]

    def rank(self, found: Sequence[EpisodeCandidate]) -> list[float]:
        return rank_episodes(self.queue.strategy, found, salt=self.queue.id)


LOOKS: dict[str, type[DecisionLook] | type[EpisodeLook]] = {
    QueueSubject.DECISION.value: DecisionLook,
    QueueSubject.EPISODE.value: EpisodeLook,
}
