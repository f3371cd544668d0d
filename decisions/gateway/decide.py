"""Decides for an agent: route, ask the model, act, record.

    request → agent → Router (experiment or champion) → version of the agent → prompt → model server's probabilities
            → acting policy (temperature, ε) → drawn action with its propensity → exposure + decision, one transaction

So a choice is made. Rankings are drawn likewise, and other actions written by the server: a file for each way
(`decisions.gateway.ways`).

When the treatment of an experiment cannot answer, the control does, and the exposure says so. When neither can, the
failure is recorded for the assigned arm, and the caller gets an error (`decisions.gateway.arms`,
`decisions.gateway.exposures`).
"""

from __future__ import annotations

import datetime as dt
import functools
import random
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from django.db import transaction
from django.utils import timezone
from msgspec import UNSET

from decisions.agents.current import CurrentAgent, get_current_agent
from decisions.agents.kinds import KINDS
from decisions.agents.prompts import PromptError
from decisions.errors import IdNotUsable
from decisions.gateway.answers import Answer, conflict, find_repeats, request_hash, sum_logprobs
from decisions.gateway.arms import ask_questions
from decisions.gateway.exposures import record_exposures, record_failures
from decisions.gateway.questions import Act, Question, Reply, Scoring, Wanted
from decisions.gateway.routing import Routing, find_agent_routes
from decisions.gateway.rows import TABLE, decision_row
from decisions.gateway.ways import way_of
from decisions.ingest.batches import check_id, resolve_episodes
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Row, columns_of, write_within
from models_registry.calls.key_limits import refuse_over_limits
from models_registry.calls.records import Ending, Opening, close_calls, open_calls
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import CallKind, CallState
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.ids import uuid7

# Cryptographic seeding is not needed, independence from every other generator is.
RNG = random.SystemRandom()
MOST_PROMPTS = 4096
"""Items of all rankings in one call: each is a prompt of its own."""


def decide(
    *, by: Actor, agent: str, items: Sequence[DecideItem], rng: random.Random | None = None, greedy: bool = False
) -> list[Answer]:
    """Answers in order of `items`; all are recorded, or none. `greedy`: the likeliest option of a choice is taken, with
    a propensity of 1, in place of one that is drawn as the agent's version says.

    Raises UnknownAgent, AgentNotAllowed, BudgetSpent, InvalidInput with every item's faults, NoChampion,
    BackendUnavailable, BackendRefused, IdConflict, IdNotUsable, Erased.
    An item whose `id` was decided before, or is decided by another call at this moment, gets the recorded answer: a
    retry is harmless.
    """
    now = timezone.now()
    current = get_current_agent(by, agent)
    ids = [uuid7() if item.id is UNSET else item.id for item in items]
    given = _by_id(items)
    answers = find_repeats(by, current, given)
    routing = Routing(current, find_agent_routes(current).router)
    if greedy and any(way_of(one.version).act_greedily is None for one in routing.acting):
        fault = FieldFault("agent", f"{agent} does not choose one of several options", "an agent that chooses")
        raise InvalidInput("This agent cannot act greedily.", faults=[fault])
    paths = [""] if len(items) == 1 else [f"items[{index}]." for index in range(len(items))]
    asked = {
        row_id: (path, item) for row_id, path, item in zip(ids, paths, items, strict=True) if row_id not in answers
    }
    if asked:
        refuse_over_limits(by=by, agent=agent, now=now)
    questions = _ask(current, routing, asked, now)
    open_calls(by=by, kind=CallKind.DECIDE, openings=[Opening(one.id, one.route.version) for one in questions], now=now)
    try:
        replies = ask_questions(questions)
    except BackendRefused as error:
        reason = "; ".join(fault.reason for fault in error.faults) or error.message
        endings = [
            Ending(one.id, CallState.FAILED, backend=error.backends.get(one.id), error=reason) for one in questions
        ]
        close_calls(by=by, endings=endings, now=now)
        raise
    if unanswered := [one for one in replies if not one.answered]:
        record_failures(by, unanswered, [one for one in replies if one.answered], timezone.now())
        raise BackendUnavailable(f"The model server could not answer: {unanswered[0].error}")
    while True:
        try:
            recorded = _record(by, replies, now, rng or RNG, greedy=greedy)
        except _AnsweredMeanwhile as met:
            answers |= find_repeats(by, current, {row_id: given[row_id] for row_id in met.ids})
            replies = [one for one in replies if one.question.id not in met.ids]
        else:
            answers |= {answer.decision_id: answer for answer in recorded}
            return [answers[row_id] for row_id in ids]


class _AnsweredMeanwhile(Exception):
    """Other calls were quicker with the same questions under these ids; nothing of this one was recorded."""

    def __init__(self, ids: Collection[uuid.UUID]) -> None:
        super().__init__(f"{len(ids)} of the decisions were recorded in the meantime")
        self.ids = ids


def _by_id(items: Sequence[DecideItem]) -> dict[uuid.UUID, DecideItem]:
    """Those that carry an id. Raises IdConflict where two that differ carry one."""
    given: dict[uuid.UUID, DecideItem] = {}
    for item in items:
        if item.id is UNSET:
            continue
        first = given.setdefault(item.id, item)
        if first is not item and request_hash(first) != request_hash(item):
            raise conflict(item.id, f"{item.id} appears twice with different content")
    return given


def _ask(
    current: CurrentAgent, routing: Routing, asked: Mapping[uuid.UUID, tuple[str, DecideItem]], now: dt.datetime
) -> list[Question]:
    """Gathers the faults of every item before anything is asked. Raises InvalidInput."""
    most = min(way_of(acting.version).most for acting in routing.acting)
    if len(asked) > most:
        raise InvalidInput(f"{len(asked)} items in one call; at most {most} are allowed if answers are written.")
    faults: list[FieldFault] = []
    questions = []
    for decision_id, (path, item) in asked.items():
        if item.id is not UNSET:
            faults += [replace(fault, field=path + fault.field) for fault in check_id(item.id, now)]
        if (schema := current.space.state) is not None:
            faults += [replace(fault, field=path + fault.field) for fault in schema.faults(item.state)]
        question = routing.make_question(decision_id, path, item, functools.partial(find_wanted, item, path), faults)
        if question is not None:
            questions.append(question)
    prompts = sum(len(one.wanted.asks.prompts) for one in questions if isinstance(one.wanted.asks, Scoring))
    if prompts > MOST_PROMPTS:
        faults.append(
            FieldFault("options", f"have {prompts:,} items of rankings in one call", f"at most {MOST_PROMPTS:,}")
        )
    if faults:
        raise InvalidInput("The agent cannot answer this request.", faults=faults)
    return questions


def find_wanted(item: DecideItem, path: str, acting: CurrentAgent, faults: list[FieldFault]) -> Wanted | None:
    """A `routing.Ask` of the item. What is wrong with it stands among the faults, even of what is wanted."""
    known = len(faults)
    try:
        wanted = way_of(acting.version).want(acting, item, path, faults)
    except PromptError as error:
        faults.append(FieldFault(path + error.field, str(error), "a value"))
        return None
    if item.places is not None and wanted is not None and not wanted.places:
        faults.append(FieldFault(f"{path}places", "is given to an agent that does not rank", "none"))
    return wanted if len(faults) == known else None


def _record(by: Actor, replies: Sequence[Reply], now: dt.datetime, rng: random.Random, *, greedy: bool) -> list[Answer]:
    """One transaction. Raises _AnsweredMeanwhile, IdConflict, Erased."""
    answers: list[Answer] = []
    rows: list[Row] = []
    with transaction.atomic():
        exposures = record_exposures(by, [one.question for one in replies], now)
        for one in replies:
            acting = one.question.current
            way = way_of(acting.version)
            act = (way.act_greedily if greedy and way.act_greedily else way.act)(acting, one, rng)
            rows.append(_decision_row(by, one, act, now) | {"exposure_id": exposures.get(one.question.unit)})
            answers.append(_answer(one, act))
        columns = resolve_episodes(by, columns_of(rows))
        written = write_within(TABLE, columns)
        for row_id in written.conflicts:
            raise conflict(row_id)
        if written.foreign:
            raise IdNotUsable.of()
        if written.duplicates:
            raise _AnsweredMeanwhile(written.duplicates)
        close_calls(by=by, endings=[_ending(one) for one in replies], now=timezone.now())
        mark_late_decisions(by.workspace.id, {row["item_ref"] for row in rows if row["item_ref"]})
    return answers


def _chosen_item(current: CurrentAgent, act: Act) -> str | None:
    """The item that the action chose, where the agent's kind says so: its end is then the decision's outcome."""
    setup = KINDS.get(current.agent.kind)
    found = act.action.get(setup.chosen_at) if setup is not None and isinstance(act.action, dict) else None
    return found if isinstance(found, str) and found else None


def _answer(reply: Reply, act: Act) -> Answer:
    question = reply.question
    return Answer(
        decision_id=question.id,
        action=act.action,
        options=question.wanted.options if act.probabilities else (),
        probabilities=act.probabilities,
        propensity=act.propensity,
        confidence=act.confidence,
        logprob=sum_logprobs(act.columns.get("logprobs")),
        reasoning=act.columns.get("reasoning"),
        model_version=question.served,
        arm=question.route.arm,
        assignment_probability=question.route.assignment_probability,
        fallback=question.fallback,
    )


def _ending(one: Reply) -> Ending:
    question = one.question
    return Ending(
        question.id,
        CallState.ANSWERED,
        served=question.served.id,
        backend=one.backend,
        fallback=one.failures,
        unusable=one.unusable,
        tokens_in=one.tokens_in,
        tokens_out=one.tokens_out,
        cost=one.cost,
    )


def _decision_row(by: Actor, reply: Reply, act: Act, now: dt.datetime) -> Row:
    item, current = reply.question.item, reply.question.current
    known = {
        "item_ref": item.item_ref or _chosen_item(current, act),
        "action": act.action,
        "confidence": act.confidence,
        "propensity": act.propensity,
        "temperature": current.version.temperature,
        "epsilon": current.version.epsilon,
        "latency_ms": reply.latency_ms,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "cost": reply.cost,
        "recorded_at": now,
        "content_hash": request_hash(item),
    }
    return decision_row(by, reply.question, observed_at=now, **known | act.columns)
