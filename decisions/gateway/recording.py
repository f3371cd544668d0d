"""Records what the gateway decided, by `decide`, in a chat, or again for a new episode: decisions with their exposures
and closed calls, and the failures of requests that nobody answered."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.db import transaction

from decisions.agents.kinds import KINDS
from decisions.errors import IdNotUsable
from decisions.gateway.answers import Answer, answer_of, conflict, request_hash
from decisions.gateway.requests import DrawnAction, ModelReply, RoutedRequest
from decisions.ingest.batches import resolve_episodes
from decisions.ingest.decisions import DECISION_TABLE
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Columns, Row, Table, columns_of, insert_of, write_within
from decisions.models import Decision
from models_registry.calls.records import CLOSED, Ending, Opening, close_calls, closing, open_calls
from models_registry.models import Arm, CallKind, CallState, Exposure, FailedRequest
from workspaces.access.actors import Actor
from workspaces.storage.clock import database_now
from workspaces.storage.prepared import prepared_cursor

OWN_COLUMNS = {"token_ids": "jsonb", "logprobs": "jsonb", "tokens_estimated": "bool"}
TABLE = Table(DECISION_TABLE.name, DECISION_TABLE.columns | OWN_COLUMNS)
COPIED = ("options", "action", "alternatives", "confidence", "propensity", "temperature", "epsilon", "tokens_in")


class AnsweredMeanwhile(Exception):
    """Other calls were quicker with the same questions under these ids; nothing of this one was recorded."""

    def __init__(self, ids: Collection[uuid.UUID]) -> None:
        super().__init__(f"{len(ids)} of the decisions were recorded in the meantime")
        self.ids = ids


def record_decisions(by: Actor, drawn: Sequence[DrawnAction], now: dt.datetime) -> dict[uuid.UUID, Answer]:
    """The answers by id, each recorded with its exposure and its closed call: one transaction. Raises
    AnsweredMeanwhile, IdConflict, IdNotUsable, Erased."""
    with transaction.atomic():
        exposures = record_exposures(by, [one.reply.request for one in drawn], now)
        rows = [_row_of(by, one, now) | {"exposure_id": exposures.get(one.reply.request.unit)} for one in drawn]
        if duplicates := _write(by, rows):
            raise AnsweredMeanwhile(duplicates)
        _close(by, rows, [_ending_of(one.reply) for one in drawn])
    return {one.reply.request.id: answer_of(one) for one in drawn}


def record_again(
    *,
    by: Actor,
    request: RoutedRequest,
    items: Sequence[tuple[uuid.UUID, DecideItem]],
    sources: Sequence[Decision],
    latency_ms: float,
) -> None:
    """The decisions of `sources` as answers to `items`, each under its id, which are of the request's unit: all in one
    transaction. A cached answer is a decision like any other; its call says that it was cached and cost nothing. Greedy
    ones only, and outside experiments, whose arms are compared by their latency and cost. Raises IdConflict,
    IdNotUsable, Erased."""
    now = database_now()
    requests = [replace(request, id=item_id, item=item) for item_id, item in items]
    open_calls(by=by, kind=CallKind.DECIDE, openings=[Opening(one.id, one.route.version) for one in requests], now=now)
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
        for one, source in zip(requests, sources, strict=True)
    ]
    endings = [
        Ending(one.id, CallState.ANSWERED, served=one.served.id, cached=True, cost=Decimal(0)) for one in requests
    ]
    with transaction.atomic():
        _write(by, rows)
        _close(by, rows, endings)


def decision_row(by: Actor, request: RoutedRequest, *, observed_at: dt.datetime, **known: Any) -> Row:
    """What the request says, and the columns that are `known` beside it; null in all others."""
    item, current = request.item, request.current
    return (
        dict.fromkeys(TABLE.columns)
        | {
            "id": request.id,
            "workspace_id": by.workspace.id,
            "agent_id": current.agent.id,
            "agent_version_id": current.version.id,
            "episode_id": item.episode,
            "step_number": item.step_number,
            "unit": request.unit,
            "external_id": item.external_id,
            "item_ref": item.item_ref,
            "project_ref": item.project_ref,
            "user_ref": item.user_ref,
            "state": item.state,
            "model_version_id": request.served.id,
            "tokens_estimated": False,
            "observed_at": observed_at,
        }
        | known
    )


def write_answered(*, by: Actor, columns: Columns, ending: Ending, now: dt.datetime) -> None:
    """A decision under a fresh id, and its closed call, in one statement: outside a transaction it is one of its own.
    Raises IntegrityError."""
    insert, rows = insert_of(TABLE, columns)
    with prepared_cursor() as cursor:
        cursor.execute(
            f"WITH decided AS ({insert}), {CLOSED} SELECT count(*) FROM closed",  # noqa: S608 - names of our own
            {"rows": rows, **closing(by=by, endings=[ending], now=now)},
        )


def record_exposures(by: Actor, requests: Sequence[RoutedRequest], now: dt.datetime) -> dict[str, uuid.UUID]:
    """The exposure of each unit in the phase that it meets, made by its first decision: two queries for a batch."""
    exposed = {request.unit: request for request in reversed(requests) if request.route.phase is not None}
    if not exposed:
        return {}
    phases = {request.route.phase for request in exposed.values()}
    # In one order everywhere: two batches with the same units would otherwise wait for each other.
    rows = [_exposure(by, exposed[unit], now) for unit in sorted(exposed)]
    Exposure.objects.bulk_create(rows, ignore_conflicts=True)
    # A unit is in the lane of one experiment, so it has one exposure in all the phases that are open now.
    return dict(Exposure.objects.filter(phase__in=phases, unit__in=exposed).values_list("unit", "id"))


@transaction.atomic
def record_failures(
    by: Actor, unanswered: Sequence[ModelReply], answered: Sequence[ModelReply], now: dt.datetime
) -> None:
    """Closes the calls of a request of which nothing is recorded. What an experiment's units asked in vain counts for
    the arm assigned: there is no decision that could tell of it."""
    requests = [one.request for one in unanswered]
    endings = [
        Ending(
            one.request.id,
            CallState.FAILED,
            backend=one.backend,
            error=one.failures or one.error or "",
            unusable=one.unusable,
            cost=one.call_cost,
        )
        for one in unanswered
    ]
    beside = "Another item of the same request had no answer."
    endings += [
        Ending(one.request.id, CallState.FAILED, backend=one.backend, error=beside, cost=one.call_cost)
        for one in answered
    ]
    exposures = record_exposures(by, requests, now)
    close_calls(by=by, endings=endings, now=now)  # after them, as in `record_decisions`: it locks the day of a budget
    FailedRequest.objects.bulk_create(
        FailedRequest(workspace=by.workspace, exposure_id=exposures[request.unit], failed_at=now)
        for request in requests
        if request.unit in exposures
    )


def _row_of(by: Actor, drawn: DrawnAction, now: dt.datetime) -> Row:
    reply, item, current = drawn.reply, drawn.reply.request.item, drawn.reply.request.current
    known = {
        "item_ref": item.item_ref or _chosen_item(drawn),
        "action": drawn.action,
        "confidence": drawn.confidence,
        "propensity": drawn.propensity,
        "temperature": current.version.temperature,
        "epsilon": current.version.epsilon,
        "latency_ms": reply.latency_ms,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "cost": reply.cost,
        "recorded_at": now,
        "content_hash": request_hash(item),
    }
    return decision_row(by, reply.request, observed_at=now, **known | drawn.columns)


def _chosen_item(drawn: DrawnAction) -> str | None:
    """The item that the action chose, where the agent's kind says so: its end is then the decision's outcome."""
    setup = KINDS.get(drawn.reply.request.current.agent.kind)
    found = drawn.action.get(setup.chosen_at) if setup is not None and isinstance(drawn.action, dict) else None
    return found if isinstance(found, str) and found else None


def _ending_of(reply: ModelReply) -> Ending:
    request = reply.request
    return Ending(
        request.id,
        CallState.ANSWERED,
        served=request.served.id,
        backend=reply.backend,
        fallback=reply.failures,
        unusable=reply.unusable,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        cost=reply.call_cost,
    )


def _write(by: Actor, rows: Sequence[Row]) -> Collection[uuid.UUID]:
    """The ids of those that were there before. Raises IdConflict, IdNotUsable, Erased."""
    written = write_within(TABLE, resolve_episodes(by, columns_of(rows)))
    for row_id in written.conflicts:
        raise conflict(row_id)
    if written.foreign:
        raise IdNotUsable.of()
    return written.duplicates


def _close(by: Actor, rows: Sequence[Row], endings: Sequence[Ending]) -> None:
    close_calls(by=by, endings=endings, now=database_now())
    mark_late_decisions(by.workspace.id, {row["item_ref"] for row in rows if row["item_ref"]})


def _exposure(by: Actor, request: RoutedRequest, now: dt.datetime) -> Exposure:
    route = request.route
    by_control = request.fallback and request.answerer.is_as(request.control)
    assert route.phase is not None
    assert route.arm is not None
    assert route.assignment_probability is not None
    return Exposure(
        workspace=by.workspace,
        experiment_id=route.phase.experiment_id,
        phase=route.phase,
        unit=request.unit,
        arm=route.arm,
        assignment_probability=route.assignment_probability,
        version=request.served,
        served_arm=Arm.CONTROL if by_control else route.arm,
        fallback=request.fallback,
        exposed_at=now,
    )
