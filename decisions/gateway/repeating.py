"""Records decisions that were made before, as those of a new episode: a cached answer is a decision like any other.

Greedy ones only, and outside experiments, whose arms are compared by their latency and cost.
`training.environments.solving` keeps which episodes may be given again.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from decisions.agents.current import CurrentAgent
from decisions.errors import IdNotUsable
from decisions.gateway.answers import conflict, request_hash
from decisions.gateway.decide import find_wanted
from decisions.gateway.questions import Question
from decisions.gateway.routing import Routing
from decisions.gateway.rows import TABLE, decision_row
from decisions.ingest.batches import resolve_episodes
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import columns_of, write_within
from decisions.models import Decision
from models_registry.calls.records import Ending, Opening, close_calls, open_calls
from models_registry.models import CallKind, CallState
from models_registry.routing.routes import find_routes
from workspaces.access.actors import Actor
from workspaces.storage.ids import uuid7

COPIED = ("options", "action", "alternatives", "confidence", "propensity", "temperature", "epsilon", "tokens_in")


def find_question(*, current: CurrentAgent, item: DecideItem) -> Question | None:
    """Who would answer the item now, and as which version of the agent; None where it cannot be asked, which `decide`
    then says. Raises NoChampion."""
    assert current.agent.registered_model is not None
    routing = Routing(current, find_routes(current.agent.registered_model).router)
    return routing.make_question(uuid7(), "", item, functools.partial(find_wanted, item, ""), [])


def record_again(
    *,
    by: Actor,
    question: Question,
    items: Sequence[tuple[uuid.UUID, DecideItem]],
    sources: Sequence[Decision],
    latency_ms: float,
) -> None:
    """The decisions of `sources` as answers to `items`, each under its id, which are of the question's unit: all in one
    transaction. Their calls say that they were cached and cost nothing. Raises IdConflict, IdNotUsable, Erased."""
    now = timezone.now()
    questions = [replace(question, id=item_id, item=item) for item_id, item in items]
    open_calls(by=by, kind=CallKind.DECIDE, openings=[Opening(one.id, one.route.version) for one in questions], now=now)
    rows = [
        decision_row(
            by,
            one,
            observed_at=now,
            recorded_at=now,
            latency_ms=latency_ms,
            cost=Decimal(0),
            content_hash=request_hash(one.item),
            **{name: getattr(source, name) for name in COPIED},
        )
        for one, source in zip(questions, sources, strict=True)
    ]
    endings = [
        Ending(one.id, CallState.ANSWERED, served=one.served.id, cached=True, cost=Decimal(0)) for one in questions
    ]
    with transaction.atomic():
        written = write_within(TABLE, resolve_episodes(by, columns_of(rows)))
        for row_id in written.conflicts:
            raise conflict(row_id)
        if written.foreign:
            raise IdNotUsable.of()
        close_calls(by=by, endings=endings, now=timezone.now())
        mark_late_decisions(by.workspace.id, {row["item_ref"] for row in rows if row["item_ref"]})
