"""What an episode of chats was asked and answered, and for whom, where nothing else says so: as its decisions have it.

Computed when it is read, and never stored: what a trace or a client says later counts instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from django.db import connection

from decisions.models import Episode
from decisions.traces.messages import read_messages

# Decisions that say why their answer ended are a model's answers. Of each episode a look at the ends of an index.
_ENDS = """
SELECT e.id, first.messages, last.completion, whose.unit
  FROM unnest(%(ids)s::uuid[]) e(id)
  LEFT JOIN LATERAL (
    SELECT state->'messages' AS messages FROM decisions_decision
     WHERE episode_id = e.id AND finish_reason IS NOT NULL ORDER BY id LIMIT 1) first ON true
  LEFT JOIN LATERAL (
    SELECT completion FROM decisions_decision
     WHERE episode_id = e.id AND finish_reason IS NOT NULL AND completion <> '' ORDER BY id DESC LIMIT 1) last ON true
  LEFT JOIN LATERAL (
    SELECT unit FROM decisions_decision
     WHERE episode_id = e.id AND finish_reason IS NOT NULL AND unit <> '' ORDER BY id LIMIT 1) whose ON true
"""


def fill_ends(episodes: Sequence[Episode]) -> None:
    """Puts query, final response and unit into the objects where they are empty, which are to be shown and not saved.
    One statement for any number."""
    open_ones = {one.id: one for one in episodes if not (one.query and one.final_response and one.unit)}
    ids = [pk for pk, one in open_ones.items() if not one.is_erased]
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"ids": ids})
        rows = cursor.fetchall()
    for pk, messages, completion, unit in rows:
        episode = open_ones[pk]
        episode.query = episode.query or _first_question(messages)
        episode.final_response = episode.final_response or completion or ""
        episode.unit = episode.unit or unit or ""


def _first_question(messages: str | None) -> str:
    """`messages`: JSON."""
    found = msgspec.json.decode(messages) if messages is not None else None
    given = read_messages(found) if isinstance(found, list) else []
    return next((str(one["content"]) for one in given if one["role"] == "user" and one.get("content")), "")
