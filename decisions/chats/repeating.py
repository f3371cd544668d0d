"""Chats that are sent again under one `Idempotency-Key`: they get the first one's decision and answer, and nobody is
asked. The answer is read from the ledger, so that what was erased is not given again."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Mapping

from django.conf import settings

from decisions.agents.current import CurrentAgent, space_of
from decisions.chats.answering import Begun
from decisions.chats.recalling import as_completion
from decisions.chats.requests import Chat
from decisions.errors import Erased
from decisions.gateway.requests import Answerer, IdentifiedItem, RoutedRequest, ScoringPrompt
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from models_registry.backends.chatting import Attempt
from models_registry.backends.endpoint import own_endpoint
from models_registry.backends.places import Place
from models_registry.calls.key_limits import refuse_agent
from models_registry.routing.router import Route
from workspaces.access.actors import Actor
from workspaces.http.claims import Claim, take_claim
from workspaces.http.idempotency import made_id


def claim_chat(*, by: Actor, key: str, path: str, headers: Mapping[str, str], body: bytes) -> Claim:
    """`headers`: what the client says of the chat beside its body. Raises InFlight, KeyReused."""

    def is_done(claim: uuid.UUID) -> bool:
        return Decision.objects.filter(id=decision_of(claim), workspace_id=by.workspace.id).exists()

    lasts = dt.timedelta(seconds=settings.CALL_SECONDS)  # as long as its call may be open
    return take_claim(by=by, key=key, path=path, headers=headers, body=body, lasts=lasts, is_done=is_done)


def decision_of(claim: uuid.UUID) -> uuid.UUID:
    """The id of the decision that the chat with this claim becomes."""
    return made_id(claim, 0)


def repeat_chat(*, by: Actor, chat: Chat, decision_id: uuid.UUID) -> Begun:
    """The chat as it was answered. Raises AgentNotAllowed for a key that may not ask this agent any more, and Erased,
    also where its month was dropped."""
    related = ("agent", "agent_version", "model_version__registered_model", "exposure")
    found = Decision.objects.filter(id=decision_id, workspace_id=by.workspace.id).select_related(*related).first()
    if found is None or found.is_erased or found.model_version is None:
        raise Erased.of([decision_id])
    refuse_agent(by=by, agent=found.agent.slug)
    current = CurrentAgent(found.agent, found.agent_version, space_of(found.agent_version))
    exposure = found.exposure
    route = Route(
        version=found.model_version,
        arm=exposure.arm if exposure is not None else None,
        assignment_probability=exposure.assignment_probability if exposure is not None else None,
    )
    answerer = Answerer(found.model_version, current, ScoringPrompt(chat.tools, ()))
    item = IdentifiedItem(found.id, "", DecideItem(state=dict(chat.state)))
    request = RoutedRequest(item.id, "", item.item, found.unit or "", route, answerer, control=answerer)
    attempt = Attempt(found.model_version, Place(own_endpoint(), ""))  # nobody is asked
    return Begun(
        by,
        chat,
        request,
        (attempt,),
        (answerer,),
        time.perf_counter(),
        found.observed_at,
        recalled=as_completion(found, reason=found.finish_reason or "stop", anew=False),
        is_repeat=True,
    )
