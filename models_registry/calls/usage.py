"""What backends were asked and cost lately, from their calls: one statement for all of a workspace."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection

from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

WINDOWS = {"day": dt.timedelta(days=1), "week": dt.timedelta(days=7)}
# The calls of a window lie together by their id; a client may choose an older one, and its call is then left out.
_USAGE = """
SELECT "window".name, c.backend_id, count(*),
       count(*) FILTER (WHERE c.fallback <> ''),
       coalesce(sum(c.tokens_in), 0), coalesce(sum(c.tokens_out), 0), coalesce(sum(c.cost), 0),
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (
         ORDER BY extract(epoch FROM c.closed_at - c.opened_at)::float8 * 1000
       ) FILTER (WHERE c.state = 'answered')
  FROM models_registry_call c
  JOIN unnest(%(names)s::text[], %(since)s::timestamptz[]) AS "window"(name, since) ON c.opened_at >= "window".since
 WHERE c.workspace_id = %(workspace)s AND c.id >= %(first)s AND c.served_id IS NOT NULL AND NOT c.cached
 GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls that a backend answered within a window, without those from the cache. `stood_in`: those that should have
    been answered by another version or server. `cost` is in the unit of the backend's prices. `p50` and `p95` are
    milliseconds from the question to the end of the answer; None without calls."""

    calls: int = 0
    stood_in: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    p50: float | None = None
    p95: float | None = None


NOTHING = Usage()


def measure_usage(workspace: Workspace, *, now: dt.datetime) -> Mapping[tuple[uuid.UUID | None, str], Usage]:
    """By backend (None: the instance's own model server) and name of a window, where there were calls."""
    since = {name: now - length for name, length in WINDOWS.items()}
    asked: dict[str, Any] = {
        "workspace": workspace.id,
        "names": list(since),
        "since": list(since.values()),
        "first": uuid7_bound(min(since.values())),
    }
    with connection.cursor() as cursor:
        cursor.execute(_USAGE, asked)
        return {
            (backend, window): Usage(calls, stood_in, tokens_in, tokens_out, cost, *(times or (None, None)))
            for window, backend, calls, stood_in, tokens_in, tokens_out, cost, times in cursor.fetchall()
        }
