"""Records facts about episodes as clients send them; the last value counts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q

from decisions.agents.current import find_agents, unknown_agent
from decisions.errors import Erased
from decisions.ingest.batches import COST_GRAIN, BatchResult, Kept, check_moment
from decisions.ingest.decoding import ItemError
from decisions.ingest.episodes import TRACE, Named, ensure_episodes
from decisions.ingest.step_schemas import EpisodeIn
from decisions.models import Episode
from workspaces.access.actors import Actor
from workspaces.storage.clock import database_now

TOLD = (
    *("session", "unit", "query", "final_response", "tasks_created", "tasks_completed", "tasks_failed", "llm_calls"),
    *("tokens_in", "tokens_out", "cost", "duration_ms", "started_at", "ended_at"),
)


@transaction.atomic
def record_episodes(*, by: Actor, items: Sequence[tuple[int, EpisodeIn]]) -> BatchResult:
    """In the order given. Bad items are reported, the rest is kept. A repeat that says nothing new is a duplicate."""
    now = database_now()
    agents = find_agents(by, {item.agent for _, item in items})
    errors: list[ItemError] = []
    good: list[tuple[int, Named, EpisodeIn]] = []
    for index, item in items:
        if (current := agents.get(item.agent)) is None:
            errors.append(ItemError(index, "invalid_input", (unknown_agent(item.agent),)))
            continue
        faults = [
            fault
            for name in ("started_at", "ended_at")
            if (moment := getattr(item, name)) is not None
            for fault in check_moment(moment, name)
        ]
        if faults:
            errors.append(ItemError(index, "invalid_input", tuple(faults)))
            continue
        good.append((index, (current.agent.id, item.episode), item))
    names = {key[1] for _, key, _ in good}
    named = Q(agent_id__in={key[0] for _, key, _ in good}, external_id__in=names)
    named |= Q(trace__in={match[1] for name in names if (match := TRACE.match(name))})
    before = set(Episode.objects.for_workspace(by.workspace).filter(named).values_list("id", flat=True))
    ids = ensure_episodes(by=by, named={key: item.started_at or now for _, key, item in reversed(good)})
    rows = Episode.objects.select_for_update().order_by("id").in_bulk(sorted(set(ids.values())))
    kept, changed = [], set()
    for index, key, item in good:
        row = rows[ids[key]]
        if row.is_erased:
            errors.append(ItemError.of(index, Erased.named("episode")))
            continue
        news = _apply(row, item)
        changed |= {row.id} if news else set()
        kept.append(Kept(index, row.id, row.id in before and not news))
        before.add(row.id)
    for pk in changed:
        rows[pk].changed_at = now
    Episode.objects.bulk_update([rows[pk] for pk in sorted(changed)], (*TOLD, "changed_at"), batch_size=200)
    return BatchResult(kept, errors)


def _apply(row: Episode, item: EpisodeIn) -> bool:
    """Puts what was given into the row; True when something changed."""
    news = False
    for name in TOLD:
        value: Any = getattr(item, name)
        if value is None:
            continue
        if name == "cost":
            value = Decimal(repr(value)).quantize(COST_GRAIN)
        if getattr(row, name) != value:
            setattr(row, name, value)
            news = True
    return news
