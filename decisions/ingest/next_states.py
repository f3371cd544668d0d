"""The states that decisions led to, of decisions whose maker learns them only after they were recorded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import connection

from decisions.models.tombstones import NOT_ERASED
from workspaces.access.actors import Actor

_SET = f"""
UPDATE decisions_decision d SET next_state = led.state
  FROM unnest(%(ids)s::uuid[], %(states)s::jsonb[]) AS led(id, state)
 WHERE d.id = led.id AND d.workspace_id = %(workspace)s AND d.next_state IS NULL AND d.{NOT_ERASED}
"""  # noqa: S608 - our own names


def record_next_states(*, by: Actor, states: Mapping[uuid.UUID, Mapping[str, Any]]) -> None:
    """By decision. One that has its next state keeps it, and one that was erased gets none."""
    if not states:
        return
    known: dict[str, Any] = {
        "ids": list(states),
        "states": [json.dumps(state) for state in states.values()],
        "workspace": by.workspace.id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SET, known)
