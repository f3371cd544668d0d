"""Routes chats, opens their calls, and records their answers. All of it asks the database, and nothing a model.

begin_chat: agent, Router (experiment or champion), versions → open call, and the servers to ask in their order
record_chat: exposure + decision + closed call, in one transaction, before the client hears that it is done
fail_chat, leave_chat: how else a call ends
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import msgspec
from django.db import transaction

from decisions.agents.current import CurrentAgent, find_agents
from decisions.chats.pricing import TokenCounts, estimate_cost, estimate_counts, estimate_unheard_cost, measure
from decisions.chats.recalling import keep_answer, name_of_answer, recall_answer
from decisions.chats.requests import Chat
from decisions.chats.standing import OutOfDate, Standing, unchanged
from decisions.chats.written import Written
from decisions.errors import UnknownAgent
from decisions.gateway.recording import decision_row, record_exposures, record_failures, write_answered
from decisions.gateway.requests import Answerer, IdentifiedItem, ModelReply, Rendering, RoutedRequest, ScoringPrompt
from decisions.gateway.routing import Routing, find_agent_routes, pin_request
from decisions.ingest.batches import resolve_episodes
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Row, columns_of
from decisions.models import CHATTING, ActionSpaceKind
from decisions.models.finish_reasons import FinishReason, read_finish_reason
from decisions.traces.links import link_decision
from models_registry.backends.chatting import Attempt, Waiting
from models_registry.backends.parameters import TEMPERATURE, refuses
from models_registry.backends.places import Place, find_places
from models_registry.backends.prompts import put_before
from models_registry.backends.token_estimates import learn_ratio, learn_speed
from models_registry.calls.key_limits import may_ask, refuse_agent
from models_registry.calls.records import ALWAYS, Ending, Opening, close_calls, open_calls
from models_registry.models import Alias, CallState, ModelVersion, RegisteredModel
from models_registry.versions.references import find_version
from models_registry.versions.services import refuse_no_policy
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.claims import close_claim
from workspaces.http.idempotency import made_id
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7

REFERENCE = re.compile(r"(?:models:/)?(?P<agent>[\w-]{1,63})(?P<version>[:@/].{1,100})?", re.DOTALL)
FORMS = "an agent's slug, slug@alias or slug:7"
"""MLflow's models:/slug/7 and models:/slug@alias are taken, too."""


@dataclass(frozen=True, slots=True)
class About:
    """What the caller says of a chat beside its body: headers, all optional. `anew`: no answer that was given before
    will do. `claim`: of an `Idempotency-Key`, by which the decision has its id."""

    unit: str | None = None
    episode: str | None = None
    item_ref: str | None = None
    project_ref: str | None = None
    user_ref: str | None = None
    external_id: str | None = None
    anew: bool = False
    claim: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A chat whose call is open. `attempts` in the order in which they are asked, and `answerers`, whose they are.
    `started`: seconds of the monotonic clock. `recalled`: the answer, where it was given before, and nobody is asked;
    `kept_as`: what it is kept under, "" where it is not (`decisions.chats.recalling`). `claim`: of an
    `Idempotency-Key`; `is_repeat`: the chat was answered under it before, so that nothing is open and recorded.
    `waiting`: the server that has the chat at this moment."""

    by: Actor
    chat: Chat
    request: RoutedRequest
    attempts: tuple[Attempt, ...]
    answerers: tuple[Answerer, ...]
    started: float
    opened_at: dt.datetime
    kept_as: str = ""
    recalled: dict[str, Any] | None = None
    claim: uuid.UUID | None = None
    is_repeat: bool = False
    waiting: Waiting = field(default_factory=Waiting, compare=False)

    @property
    def id(self) -> uuid.UUID:
        return self.request.id

    @property
    def body(self) -> Mapping[str, Any]:
        """For the server; each attempt adds its own fields."""
        return self.chat.body

    @property
    def moment(self) -> dt.datetime:
        """This one, by the clock that opened the call."""
        return self.opened_at + dt.timedelta(seconds=time.perf_counter() - self.started)

    @property
    def temperature(self) -> float:
        """Of the version of the agent that acts."""
        return _temperature(self.chat, self.request.current)


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of it, and from whom; `failures` says why others that stood before could not answer."""

    written: Written
    attempt: Attempt
    failures: tuple[str, ...] = ()
    first_byte_at: dt.datetime | None = None


def begin_chat(
    *, by: Actor, chat: Chat, kind: str, about: About | None = None, standing: Standing | None = None
) -> Begun:
    """`standing`: of the key and the agent that the chat names, as it was kept; then a refusal may be out of date, too.
    Raises UnknownAgent, UnknownVersion, AgentNotAllowed, BudgetSpent, BudgetReserved, NoChampion, InvalidInput,
    OutOfDate; nothing is open then."""
    now, started, about = database_now(), time.perf_counter(), about or About()
    current, pinned = _find_model(by, chat.model) if standing is None else _find_kept(by, chat.model, standing)
    _refuse_what_does_not_fit(current, chat)
    request, places = _route(chat, _identify(chat, about), current, pinned, standing)
    attempts, answerers = _list_attempts(chat, request, places)
    kept_as, recalled = "", None
    if attempts and answerers[0] is request.answerer:
        body = {**chat.body, **attempts[0].fields}
        kept_as = name_of_answer(by=by, answerer=request.answerer, route=request.route, body=body)
    if kept_as and not about.anew:
        recalled = recall_answer(by=by, answerer=request.answerer, name=kept_as, content_hash=_hash_of(chat.state))
    reserved = Decimal(0) if recalled is not None else estimate_cost(by, chat, attempts, answerers)
    openings = [Opening(request.id, request.route.version, reserved)]
    condition = unchanged(standing) if standing is not None else ALWAYS
    if not open_calls(by=by, kind=kind, openings=openings, now=now, condition=condition):
        raise OutOfDate
    return Begun(by, chat, request, attempts, answerers, started, now, kept_as, recalled, about.claim)


def record_chat(*, begun: Begun, ended: Ended, state: str = CallState.ANSWERED, error: str = "") -> None:
    """The decision with its exposure, and the closed call, in one transaction. `state` LEFT: the client went away, or
    the gateway was stopped, as `error` says, and this is what was generated until then; FAILED: the server broke off.
    """
    now = database_now()
    request = _served(begun, ended.attempt)
    written, endpoint = ended.written, ended.attempt.place.endpoint
    cached = begun.recalled is not None
    spent = _count_tokens(begun, ended, complete=state == CallState.ANSWERED)
    cost = Decimal(0) if cached else endpoint.price(spent.tokens_in, spent.tokens_out)
    call_cost = None if cost is None else cost + _price_lost_answers(begun)
    item = request.item
    alone = request.route.phase is None and not item.episode and not item.item_ref
    with contextlib.nullcontext() if alone else transaction.atomic():  # one statement is a transaction of its own
        exposures = record_exposures(begun.by, [request], now)
        row = _decision_row(
            begun,
            request,
            written,
            ended.attempt.place,
            spent,
            complete=state == CallState.ANSWERED,
            finish_reason=_finish_reason(written, state, error),
            exposure_id=exposures.get(request.unit),
            latency_ms=(time.perf_counter() - begun.started) * 1000,
            cost=cost,
            recorded_at=now,
        )
        ending = Ending(
            request.id,
            state,
            served=request.served.id,
            backend=None if cached else endpoint.backend,
            fallback=" ".join(ended.failures),
            error=error,
            cached=cached,
            tokens_in=None if cached else spent.tokens_in,
            tokens_out=None if cached else spent.tokens_out,
            cost=call_cost,
            first_byte_at=ended.first_byte_at,
        )
        write_answered(by=begun.by, columns=resolve_episodes(begun.by, columns_of([row])), ending=ending, now=now)
        if item.item_ref:
            mark_late_decisions(begun.by.workspace.id, {item.item_ref})
    _close_claim(begun, answered=state == CallState.ANSWERED)
    if begun.kept_as and not cached and state == CallState.ANSWERED and not request.fallback:
        seconds = request.current.agent.cache_seconds
        keep_answer(name=begun.kept_as, seconds=seconds, decision_id=request.id, written=written)


def leave_chat(*, begun: Begun, ended: Ended | None = None, reason: str = "") -> None:
    """The client went away, or the gateway is stopped for `reason`. What was generated is recorded as a decision; where
    that is nothing there is none, but its prompt has cost something where a server has it."""
    if ended is not None and not ended.written.is_empty:
        record_chat(begun=begun, ended=ended, state=CallState.LEFT, error=reason)
        # Only who went away may have told of the call before it ended.
        link_decision(begun.by, begun.id)
        return
    ending = _end_unrecorded(begun, Ending(begun.id, CallState.LEFT, error=reason), ended)
    close_calls(by=begun.by, endings=[ending], now=database_now())
    _close_claim(begun, answered=False)


def cut_chat(*, begun: Begun, ended: Ended, reason: str) -> None:
    """The server broke off after its first words, which are recorded as a decision; the call has failed, and counts
    against the arm."""
    with transaction.atomic():
        record_chat(begun=begun, ended=ended, state=CallState.FAILED, error=reason)
        fail_chat(begun=begun, reason=reason)


def fail_chat(
    *,
    begun: Begun,
    reason: str,
    unanswered: bool = True,
    backend: uuid.UUID | None = None,
    ended: Ended | None = None,
) -> None:
    """`unanswered`: no server could, which counts against the arm assigned; else the request itself was wrong.
    `backend`: the one that was asked last. `ended`: an answer of which nothing is recorded. Servers that had the chat
    and gave no error for it count what they can have done."""
    now = database_now()
    ending = _end_unrecorded(begun, Ending(begun.id, CallState.FAILED, backend=backend, error=reason), ended)
    if unanswered:
        waited_ms = (time.perf_counter() - begun.started) * 1000
        cost = ending.cost or Decimal(0)
        reply = ModelReply(begun.request, waited_ms, error=reason, backend=ending.backend, wasted=cost)
        record_failures(begun.by, [reply], [], now)
    else:
        close_calls(by=begun.by, endings=[replace(ending, cost=ending.cost or None)], now=now)
    _close_claim(begun, answered=False)


def _end_unrecorded(begun: Begun, ending: Ending, ended: Ended | None) -> Ending:
    """The ending with what servers cost of whose answers nothing is recorded."""
    lost = _price_lost_answers(begun)
    if ended is not None and begun.recalled is None:
        spent, endpoint = _count_tokens(begun, ended, complete=False), ended.attempt.place.endpoint
        cost = endpoint.price(spent.tokens_in, spent.tokens_out)
        return replace(
            ending,
            backend=endpoint.backend,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            cost=lost + (cost or 0) if lost else cost,
        )
    if (attempt := begun.waiting.attempt) is None or ended is not None:
        return replace(ending, cost=lost)
    cost = estimate_unheard_cost(begun.chat, _served(begun, attempt).current, attempt, begun.waiting.seconds)
    return replace(ending, backend=attempt.place.endpoint.backend, cost=cost + lost)


def _price_lost_answers(begun: Begun) -> Decimal:
    costs = [
        estimate_unheard_cost(begun.chat, _served(begun, lost.attempt).current, lost.attempt, lost.seconds)
        for lost in begun.waiting.lost
    ]
    return sum(costs, Decimal(0))


def _close_claim(begun: Begun, *, answered: bool) -> None:
    if begun.claim is not None:
        close_claim(begun.claim, answered=answered)


def list_models(*, by: Actor) -> list[dict[str, Any]]:
    """OpenAI's model objects: every agent that can chat, has a champion and that the key may ask, and each of its
    versions with an alias."""
    rows = Alias.objects.for_workspace(by.workspace).order_by("registered_model__name", "name")
    aliases: dict[uuid.UUID, list[str]] = {}
    for model_id, name in rows.values_list("registered_model", "name"):
        aliases.setdefault(model_id, []).append(name)
    agents = RegisteredModel.objects.for_workspace(by.workspace).filter(id__in=aliases)
    found = agents.order_by("agents__slug").values_list("agents__slug", flat=True)
    slugs = [slug for slug in found if slug and may_ask(by=by, agent=slug)]
    models = []
    for current in find_agents(by, slugs).values():
        names = aliases.get(current.agent.registered_model_id or uuid.UUID(int=0), [])
        if current.version.action_space in CHATTING and "champion" in names:
            references = [current.agent.slug, *(f"{current.agent.slug}@{name}" for name in names)]
            models += [_model_object(by, current, reference) for reference in references]
    return models


def find_model(*, by: Actor, reference: str) -> dict[str, Any]:
    """Raises AgentNotAllowed, UnknownAgent, UnknownVersion, InvalidInput."""
    current, _ = _find_model(by, reference)
    return _model_object(by, current, reference)


def summary_of(begun: Begun, ended: Ended) -> dict[str, Any]:
    """What `decide` says beside its answer (docs/gateway.md)."""
    route = begun.request.route
    return {
        "decision_id": str(begun.id),
        "agent": begun.request.current.agent.slug,
        "model_version": str(ended.attempt.version),
        "variant": route.arm,
        "assignment_probability": route.assignment_probability,
        "fallback": _served(begun, ended.attempt).fallback,
        "propensity": ended.written.propensity,
        "cached": begun.recalled is not None and not begun.is_repeat,
    }


def _find_model(by: Actor, reference: str) -> tuple[CurrentAgent, ModelVersion | None]:
    """The agent, and the version that the reference pins. Raises AgentNotAllowed, UnknownAgent, UnknownVersion."""
    found = REFERENCE.fullmatch(reference)
    if found is not None:
        refuse_agent(by=by, agent=found["agent"])
    current = find_agents(by, [found["agent"]]).get(found["agent"]) if found is not None else None
    if found is None or current is None or current.agent.registered_model is None:
        raise UnknownAgent(f"There is no model {reference[:100]!r} in this workspace. Give {FORMS}.")
    if found["version"] is None:
        return current, None
    version = find_version(
        by.workspace, f"{current.agent.registered_model.name}{found['version'].replace('/', ':', 1)}"
    )
    refuse_no_policy(version)
    return current, version


def _find_kept(by: Actor, reference: str, standing: Standing) -> tuple[CurrentAgent, None]:
    """Raises AgentNotAllowed."""
    refuse_agent(by=by, agent=reference)
    return standing.current, None


def _refuse_what_does_not_fit(current: CurrentAgent, chat: Chat) -> None:
    slug, space = current.agent.slug, current.version.action_space
    if space not in CHATTING:
        kind = ActionSpaceKind(space).label.lower()
        fault = FieldFault("model", f"{slug} decides {kind}, and does not chat", f"POST /api/v1/agents/{slug}/decide")
        raise InvalidInput("This agent does not chat.", faults=[fault])
    if (schema := current.space.state) is not None and (faults := schema.faults(chat.state)):
        raise InvalidInput("The chat does not fit the agent's state schema.", faults=faults)


def _identify(chat: Chat, about: About) -> IdentifiedItem:
    item = DecideItem(
        state=dict(chat.state),
        unit=about.unit or chat.unit,
        episode=about.episode,
        item_ref=about.item_ref,
        project_ref=about.project_ref,
        user_ref=about.user_ref,
        external_id=about.external_id,
    )
    return IdentifiedItem(uuid7() if about.claim is None else made_id(about.claim, 0), "", item)


def _route(
    chat: Chat,
    identified: IdentifiedItem,
    current: CurrentAgent,
    pinned: ModelVersion | None,
    standing: Standing | None,
) -> tuple[RoutedRequest, Mapping[uuid.UUID, tuple[Place, ...]]]:
    """With the servers of every version that may answer. Raises NoChampion."""
    prompt = ScoringPrompt(chat.tools, ())  # what goes to a server is the chat itself
    if pinned is not None:
        unit = identified.item.unit or str(identified.id)
        return pin_request(identified, unit, current, pinned, prompt), find_places([pinned])
    routes = standing.routes if standing is not None else find_agent_routes(current)
    routing = Routing(current, routes.router)
    return routing.route(identified, prompt, lambda acting, item: Rendering(prompt)), routes.places


def _list_attempts(
    chat: Chat, request: RoutedRequest, places: Mapping[uuid.UUID, tuple[Place, ...]]
) -> tuple[tuple[Attempt, ...], tuple[Answerer, ...]]:
    """Who is asked, in order, each once, and for whom."""
    attempts: list[Attempt] = []
    answerers: list[Answerer] = []
    for answerer in (request.answerer, *request.stand_ins(request.answerer)):
        own = _fields(chat, answerer.current)
        for place in places[answerer.version.id]:
            attempt = Attempt(answerer.version, place, own)
            if attempt not in attempts:
                attempts.append(attempt)
                answerers.append(answerer)
    return tuple(attempts), tuple(answerers)


def _model_object(by: Actor, current: CurrentAgent, reference: str) -> dict[str, Any]:
    return {
        "id": reference,
        "object": "model",
        "created": int(current.agent.created_at.timestamp()),
        "owned_by": by.workspace.slug,
    }


def _served(begun: Begun, attempt: Attempt) -> RoutedRequest:
    answerer = begun.answerers[begun.attempts.index(attempt)]
    return replace(begun.request, answerer=answerer, fallback=not answerer.is_as(begun.request.answerer))


def _temperature(chat: Chat, current: CurrentAgent) -> float:
    return current.version.temperature if chat.temperature is None else chat.temperature


def _fields(chat: Chat, current: CurrentAgent) -> dict[str, Any]:
    """What the version of the agent says of a chat."""
    most = current.version.max_completion_tokens
    limit = {} if chat.limited or most is None else {"max_tokens": most}
    system = current.version.system_prompt
    told = {"messages": put_before(system, chat.body["messages"])} if system else {}
    return {"temperature": _temperature(chat, current), **limit, **told}


def _finish_reason(written: Written, state: str, error: str) -> str | None:
    if state == CallState.ANSWERED:
        return read_finish_reason(written.finish_reason)
    return FinishReason.CUT if error else FinishReason.ABANDONED


def _count_tokens(begun: Begun, ended: Ended, *, complete: bool) -> TokenCounts:
    """Counts tokens as the server said them; of an answer that did not come to its end they are estimated."""
    written, place = ended.written, ended.attempt.place
    sizes = measure(begun.chat, _served(begun, ended.attempt).current, written)
    if complete and begun.recalled is None:
        learn_ratio(place.endpoint, place.model, sizes, written.tokens_in, written.tokens_out)
        learn_speed(place.endpoint, place.model, written.tokens_out, begun.waiting.seconds)
    if not complete and (written.tokens_in is None or written.tokens_out is None):
        return estimate_counts(ended.attempt, sizes)
    return TokenCounts(written.tokens_in, written.tokens_out)


def _decision_row(
    begun: Begun,
    request: RoutedRequest,
    written: Written,
    place: Place,
    spent: TokenCounts,
    *,
    complete: bool,
    **known: Any,
) -> Row:
    # A model that takes no temperature has one of its own, which nobody knows.
    fixed = refuses(place.endpoint, place.model, TEMPERATURE)
    temperature = None if fixed else _temperature(begun.chat, request.current)
    state = request.item.state
    return decision_row(
        begun.by,
        request,
        observed_at=begun.opened_at,
        options=list(begun.chat.tools) or None,
        action=written.action(complete=complete),
        completion=written.text or None,
        reasoning=written.reasoning,
        propensity=written.propensity if complete else None,
        temperature=temperature or None,  # a greedy answer has none
        epsilon=0.0,
        token_ids=written.token_ids if complete else None,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        tokens_estimated=spent.estimated,
        parameters=dict(begun.chat.parameters) or None,
        content_hash=_hash_of(state),
        **known,
    )


def _hash_of(state: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(b"chat" + msgspec.json.encode(state, order="deterministic")).digest()
