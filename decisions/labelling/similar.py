"""Finds the decisions of the same agent that are most like one, by the words of their states.

No index serves that, so the time is bounded by what is read: the newest NEWEST decisions of the agent, NEAR on either
side of the decision in time, and of the DEEP before the newest at most MOST_RARE that have one of its rarest words. The
last are walked in pieces, and no piece begins after PATIENCE seconds. The vectors are of all that was read
(`decisions.labelling.wording`).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.errors import Erased
from decisions.labelling.wording import Wording, text_of
from decisions.models import Decision
from decisions.models.tombstones import NOT_ERASED

NEWEST, NEAR = 2_000, 250
DEEP, PIECE, MOST_RARE = 50_000, 5_000, 500
RAREST = 3
PATIENCE = 1.0
LONGEST_TEXT = 1_000
"""How many characters of each state are compared."""
MOST_FOUND = 50
LEAST = 0.1
"""What is less alike is not shown."""

_OF_THE_AGENT = f"FROM decisions_decision WHERE agent_id = %(agent)s AND {NOT_ERASED}"
_NEWEST = f"SELECT id, state {_OF_THE_AGENT} ORDER BY id DESC LIMIT %(newest)s"
_NEAR = f"""
(SELECT id, state {_OF_THE_AGENT} AND id > %(pk)s ORDER BY id LIMIT %(near)s)
UNION ALL (SELECT id, state {_OF_THE_AGENT} AND id < %(pk)s ORDER BY id DESC LIMIT %(near)s)
"""
_PIECE = f"""
WITH piece AS MATERIALIZED (
  SELECT id, state {_OF_THE_AGENT} AND id < %(before)s ORDER BY id DESC LIMIT %(piece)s
), last AS (
  SELECT id FROM piece ORDER BY id LIMIT 1
)
SELECT id, state, false FROM (
  SELECT id, state FROM piece WHERE state::text ILIKE ANY (%(words)s) ORDER BY id DESC LIMIT %(most)s) found
UNION ALL SELECT id, NULL, (SELECT count(*) FROM piece) = %(piece)s FROM last
"""  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class Similar:
    """`found`: ids with their likeness from 0 to 1, the most alike first; `compared` states were read."""

    found: tuple[tuple[uuid.UUID, float], ...]
    compared: int


def find_similar(decision: Decision, *, most: int = MOST_FOUND) -> Similar:
    """At most `most` others, none less alike than LEAST. Raises Erased."""
    if decision.is_erased:
        raise Erased.of([decision.id])
    known = {"agent": decision.agent_id, "pk": decision.id, "newest": NEWEST, "near": NEAR}
    newest = _fetch(_NEWEST, known)
    texts = {pk: _text(json.loads(state)) for pk, state in newest + _fetch(_NEAR, known) if pk != decision.id}
    own = _text(decision.state)
    wording = Wording([own, *texts.values()])
    words = [word for word in wording.find_rare(0, RAREST) if word]
    if len(newest) == NEWEST and words:
        older = _find_rare(known, words, newest[-1][0])
        texts |= {pk: _text(json.loads(state)) for pk, state in older if pk != decision.id}
        wording = Wording([own, *texts.values()])
    ranked = sorted(zip(texts, wording.compare(0)[1:], strict=True), key=lambda pair: (-pair[1], -pair[0].int))
    return Similar(tuple((pk, alike) for pk, alike in ranked[:most] if alike >= LEAST), len(texts))


def _fetch(statement: str, values: Mapping[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def _text(state: Any) -> str:
    return text_of(state)[:LONGEST_TEXT]


def _find_rare(known: Mapping[str, Any], words: list[str], before: uuid.UUID) -> list[tuple[uuid.UUID, str]]:
    """Older decisions whose state has one of the words, with their states."""
    found: list[tuple[uuid.UUID, str]] = []
    patterns = [f"%{word}%" for word in words]
    until = time.monotonic() + PATIENCE
    for _ in range(DEEP // PIECE):
        piece = {"before": before, "piece": PIECE, "words": patterns, "most": MOST_RARE - len(found)}
        *rows, end = _fetch(_PIECE, {**known, **piece}) or [None]
        found += [(pk, state) for pk, state, _ in rows]
        if end is None or not end[2] or len(found) >= MOST_RARE or time.monotonic() > until:
            break
        before = end[0]
    return found
