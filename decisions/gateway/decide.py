"""Decides for an agent: route, ask the model, act, record.

    request → agent → prompt → Router (experiment or champion) → model server's probabilities
            → acting policy (temperature, ε) → drawn action with its propensity → exposure + decision, one transaction

So a choice is made. Rankings are drawn likewise, and other actions written by the server: a file for each way
(`decisions.gateway.ways`).

When the treatment of an experiment cannot answer, the control does, and the exposure says so. When neither can, the
failure is recorded for the assigned arm, and the caller gets an error (`decisions.gateway.arms`,
`decisions.gateway.recording`).
"""

from __future__ import annotations

import datetime as dt
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from django.conf import settings
from msgspec import UNSET

from decisions.agents.current import CurrentAgent, get_current_agent
from decisions.gateway.answers import Answer, conflict, find_recorded_answers, request_hash
from decisions.gateway.arms import ask_arms
from decisions.gateway.recording import AnsweredMeanwhile, record_decisions, record_failures
from decisions.gateway.requests import (
    DrawnAction,
    IdentifiedItem,
    ModelReply,
    RenderedPrompt,
    RoutedRequest,
    ScoringPrompt,
)
from decisions.gateway.reserving import openings_of
from decisions.gateway.routing import Routing, find_routing
from decisions.gateway.ways import render, way_of
from decisions.ingest.batches import check_id
from decisions.ingest.schemas import DecideItem
from models_registry.calls.key_limits import refuse_agent, refuse_over_limits
from models_registry.calls.records import Ending, claim_calls, close_calls, wait_until_over
from models_registry.calls.unfinished import answering
from models_registry.errors import BackendRefused, BackendUnavailable, NoChampion
from models_registry.models import CallState
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7

# Cryptographic seeding is not needed, independence from every other generator is.
RNG = random.SystemRandom()
MOST_PROMPTS = 4096
"""Items of all rankings in one call: each is a prompt of its own."""


def decide(
    *, by: Actor, agent: str, items: Sequence[DecideItem], rng: random.Random | None = None, greedy: bool = False
) -> list[Answer]:
    """Answers in order of `items`; all that are asked about together are recorded, or none. `greedy`: the likeliest
    option of a choice is taken, with a propensity of 1, in place of one that is drawn as the agent's version says.

    Raises UnknownAgent, AgentNotAllowed, BudgetSpent, BudgetReserved, InvalidInput with every item's faults,
    NoChampion, BackendUnavailable, BackendRefused, IdConflict, IdNotUsable, Erased.
    An item whose `id` was decided before, or is decided by another call at this moment, gets the recorded answer: a
    retry is harmless. Where a budget counts what is asked, the other call's answer is waited for.
    """
    now = database_now()
    current = get_current_agent(by, agent)
    refuse_agent(by=by, agent=agent)  # of recorded answers, too: a key may have lost the agent
    identified = identify_items(items)
    answers = find_recorded_answers(by, current, identified)
    fresh = list({one.id: one for one in identified if one.id not in answers}.values())
    try:
        routing = find_routing(current)
    except NoChampion:
        render_prompts(current, current, [current], fresh, now)  # what is wrong with the request comes first
        raise
    if greedy:
        refuse_without_choice(routing, agent)
    if fresh:
        refuse_over_limits(by=by, agent=agent, now=now)
    prompts = render_prompts(current, routing.control, routing.acting, fresh, now)
    requests = [routing.route(one, prompt, render) for one, prompt in zip(fresh, prompts, strict=True)]
    refuse_too_many_prompts(requests)
    until = time.monotonic() + settings.REPEATED_DECISION_SECONDS
    while requests:
        claimed = claim_calls(by=by, openings=openings_of(by, requests), now=now, again=time.monotonic() >= until)
        mine = [one for one in requests if one.id in claimed]
        with answering(claimed):
            answers |= _answer(by, current, mine, now, lambda replies: draw_actions(replies, rng or RNG, greedy=greedy))
        if others := {one.id for one in requests if one.id not in claimed}:
            wait_until_over(others, until=until)
            answers |= find_recorded_answers(by, current, [one for one in fresh if one.id in others])
            now = database_now()
        requests = [one for one in requests if one.id not in answers]
    return [answers[one.id] for one in identified]


def _answer(
    by: Actor,
    current: CurrentAgent,
    requests: Sequence[RoutedRequest],
    now: dt.datetime,
    draw: Callable[[Sequence[ModelReply]], list[DrawnAction]],
) -> dict[uuid.UUID, Answer]:
    """Asks the models and records the answers, by id. Raises as `decide`."""
    answers: dict[uuid.UUID, Answer] = {}
    replies = ask_models(by, requests, now) if requests else []
    while replies:
        drawn = draw(replies)
        try:
            return answers | record_decisions(by, drawn, now)
        except AnsweredMeanwhile as met:
            again = [IdentifiedItem(one.id, "", one.item) for one in requests if one.id in met.ids]
            answers |= find_recorded_answers(by, current, again)
            replies = [one for one in replies if one.request.id not in met.ids]
    return answers


def identify_items(items: Sequence[DecideItem]) -> list[IdentifiedItem]:
    """In order, each with the id of its decision. Raises IdConflict where two that differ carry one."""
    identified = []
    first_by_id: dict[uuid.UUID, DecideItem] = {}
    for index, item in enumerate(items):
        decision_id = uuid7() if item.id is UNSET else item.id
        first = first_by_id.setdefault(decision_id, item)
        if first is not item and request_hash(first) != request_hash(item):
            raise conflict(decision_id, f"{decision_id} appears twice with different content")
        identified.append(IdentifiedItem(decision_id, f"items[{index}]." if len(items) > 1 else "", item))
    return identified


def refuse_without_choice(routing: Routing, agent: str) -> None:
    """Raises InvalidInput where a version that may act does not choose: it has no likeliest action."""
    if any(way_of(one.version).draw_greedily is None for one in routing.acting):
        fault = FieldFault("agent", f"{agent} does not choose one of several options", "an agent that chooses")
        raise InvalidInput("This agent cannot act greedily.", faults=[fault])


def render_prompts(
    current: CurrentAgent,
    control: CurrentAgent,
    acting: Sequence[CurrentAgent],
    fresh: Sequence[IdentifiedItem],
    now: dt.datetime,
) -> list[RenderedPrompt]:
    """What the control is asked about each item. `acting`: every version of the agent that may act. Raises InvalidInput
    with the faults of all items."""
    most = min(way_of(one.version).most for one in acting)
    if len(fresh) > most:
        raise InvalidInput(f"{len(fresh)} items in one call; at most {most} are allowed if answers are written.")
    faults: list[FieldFault] = []
    prompts = []
    for one in fresh:
        wrong = check_id(one.id, now) if one.item.id is not UNSET else []
        if (schema := current.space.state) is not None:
            wrong = [*wrong, *schema.faults(one.item.state)]
        rendering = render(control, one.item)
        faults += [replace(fault, field=one.path + fault.field) for fault in wrong] + rendering.faults_at(one.path)
        if rendering.prompt is not None:
            prompts.append(rendering.prompt)
    if faults:
        raise InvalidInput("The agent cannot answer this request.", faults=faults)
    return prompts


def refuse_too_many_prompts(requests: Sequence[RoutedRequest]) -> None:
    """Raises InvalidInput."""
    prompts = sum(len(one.prompt.prompts) for one in requests if isinstance(one.prompt, ScoringPrompt))
    if prompts > MOST_PROMPTS:
        reason = f"have {prompts:,} items of rankings in one call"
        fault = FieldFault("options", reason, f"at most {MOST_PROMPTS:,}")
        raise InvalidInput("The agent cannot answer this request.", faults=[fault])


def ask_models(by: Actor, requests: Sequence[RoutedRequest], now: dt.datetime) -> list[ModelReply]:
    """Gives an answer to each, in order, whose calls are open until they are recorded. Raises BackendRefused and
    BackendUnavailable: all calls are closed then."""
    try:
        replies = ask_arms(requests)
    except BackendRefused as error:
        reason = "; ".join(fault.reason for fault in error.faults) or error.message
        endings = [
            Ending(
                one.id,
                CallState.FAILED,
                backend=error.backends.get(one.id),
                error=reason,
                cost=error.costs.get(one.id),
            )
            for one in requests
        ]
        close_calls(by=by, endings=endings, now=now)
        raise
    if unanswered := [one for one in replies if not one.answered]:
        record_failures(by, unanswered, [one for one in replies if one.answered], database_now())
        raise BackendUnavailable(f"The model server could not answer: {unanswered[0].error}")
    return replies


def draw_actions(replies: Sequence[ModelReply], rng: random.Random, *, greedy: bool) -> list[DrawnAction]:
    drawn = []
    for reply in replies:
        way = way_of(reply.request.current.version)
        draw = way.draw_greedily if greedy and way.draw_greedily else way.draw
        drawn.append(draw(reply, rng))
    return drawn
