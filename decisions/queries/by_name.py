"""Finds decisions by a name that an app gave (a unit, an item, an external id), however old, newest first.

A B-tree for units would slow COPY by a quarter (docs/adr/0009), so units and external ids share a BRIN index of Bloom
filters, which rules out ranges and has no order. The ledger is therefore asked in spans of time that grow from the
newest on: a frequent name is found in the first, a rare one costs a few statements.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db import connection, transaction

from workspaces.models import Workspace

NAMES = {"unit": "unit", "item_ref": "item", "external_id": "external id"}
"""Columns, and what pages call them."""
OTHERS = ("agent_id", "episode_id", "model_version_id")
"""Other columns that may be looked at on the way."""
FIRST, LAST = uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)
HOUR = 3_600_000
SPANS = (6, 4 * 24, 16 * 24, 128 * 24)
"""How far the spans reach, in hours. The first is read as it is, the longer ones by the index for names."""
AHEAD = HOUR
"""Milliseconds that an id may be ahead of our clock."""

# OFFSET 0 keeps the order out: else the planner may walk all newer decisions in it, hoping to meet the name soon.
_LOOK = """(SELECT id FROM decisions_decision
  WHERE workspace_id = %(workspace)s AND ({names}) AND id > %(low)s AND id < %(high)s{only} OFFSET 0)"""
_SPAN = "SELECT DISTINCT id FROM ({looks}) d ORDER BY id {order} LIMIT %(most)s"


def find_named(
    workspace: Workspace,
    name: str,
    *,
    columns: Sequence[str] = tuple(NAMES),
    equal: Mapping[str, Any] = MappingProxyType({}),
    between: tuple[uuid.UUID, uuid.UUID] = (FIRST, LAST),
    ascending: bool = False,
    most: int,
) -> list[uuid.UUID]:
    """Ids of at most `most` decisions strictly between the two ids, newest first, or oldest first if `ascending`.

    Three to seven statements, whatever the ledger holds. `columns` are of NAMES; one of them is enough. `equal`: other
    columns, of OTHERS or NAMES, and what they must hold.
    """
    only = "".join(f" AND {column} = %({column})s" for column in equal if column in {*OTHERS, *NAMES})
    asked = [f"{column} = %(name)s" for column in columns if column in NAMES]
    # A look for each column in the longer spans: no index serves an OR over them.
    short, long = (
        _SPAN.format(
            looks=" UNION ALL ".join(_LOOK.format(names=names, only=only) for names in each),
            order="ASC" if ascending else "DESC",
        )
        for each in ([" OR ".join(asked)], asked)
    )
    values: dict[str, Any] = {**equal, "workspace": workspace.id, "name": name}
    found: list[uuid.UUID] = []
    with transaction.atomic(), connection.cursor() as cursor:
        # The planner cannot know what a Bloom filter rules out, and may estimate reading everything as no more
        # expensive.
        cursor.execute("SET LOCAL enable_seqscan = off")
        for number, (low, high) in enumerate(_spans(*between, ascending=ascending)):
            values |= {"low": low, "high": high, "most": most - len(found)}
            cursor.execute(long if number else short, values)
            found += [row[0] for row in cursor.fetchall()]
            if len(found) >= most:
                break
        cursor.execute("SET LOCAL enable_seqscan TO DEFAULT")
    return found


def _spans(low: uuid.UUID, high: uuid.UUID, *, ascending: bool) -> Iterator[tuple[uuid.UUID, uuid.UUID]]:
    """Cut the range into spans that grow, from its newer end, or from its older one if `ascending`."""
    sign = 1 if ascending else -1
    # In milliseconds and not as moments: an id may name a year that no moment has.
    start = low.int >> 80 if ascending else min(high.int >> 80, int(time.time() * 1000) + AHEAD)
    near = low if ascending else high
    for hours in SPANS:
        # One below the first id of that moment: both ends of a span are left out.
        end = (start + sign * hours * HOUR << 80) - 1
        if not low.int < end < high.int:
            break
        far = uuid.UUID(int=end)
        yield (near, far) if ascending else (far, near)
        near = uuid.UUID(int=end - sign)
    yield (near, high) if ascending else (low, near)
