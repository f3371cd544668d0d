"""Greedy answers that were given before (docs/adr/0035): found by all that decides an answer, read from the ledger.

Django's cache holds for a while which decision answered what, and none of its words. So what was erased, or has left
with its month, is not given again, and a cache that is lost costs a question to the model's server.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django.core.cache import cache

from decisions.chats.written import Written
from decisions.gateway.requests import Answerer
from decisions.models import Decision
from models_registry.routing.router import Route
from workspaces.access.actors import Actor
from workspaces.storage.clock import database_now

ENDINGS = frozenset({"stop", "length", "tool_calls"})
NOT_KEPT = ("logprobs", "top_logprobs", "modalities", "audio", "web_search_options")
"""Parameters for which an answer holds what the ledger does not, or what changes with the day."""


def name_of_answer(*, by: Actor, answerer: Answerer, route: Route, body: Mapping[str, Any]) -> str:
    """What the answer is kept under: the same only where workspace, version of the agent, version of the model and body
    are. "" where it is not to be kept: the agent's cache is off, the answer is drawn, an experiment runs (its arms are
    compared by their latency and cost), or the ledger does not hold all of it.

    Inside a parameter the body counts as it was sent: a model reads tools and schemas in their order.
    """
    apart = body.get("temperature") != 0 or route.phase is not None or any(body.get(name) for name in NOT_KEPT)
    if apart or not answerer.current.agent.cache_seconds:
        return ""
    about = [str(by.workspace.id), str(answerer.current.version.id), str(answerer.version.id)]
    return f"chat:{hashlib.sha256(msgspec.json.encode([*about, sorted(body.items())])).hexdigest()}"


def recall_answer(*, by: Actor, answerer: Answerer, name: str, content_hash: bytes) -> dict[str, Any] | None:
    """A chat.completion, if one was kept under this name within the agent's time, of an equal state."""
    if not isinstance(kept := cache.get(name), list):
        return None
    setup = answerer.current
    decision = Decision.objects.filter(
        id=uuid.UUID(kept[0]),
        workspace_id=by.workspace.id,
        agent_version=setup.version,
        model_version=answerer.version,
        recorded_at__gte=database_now() - dt.timedelta(seconds=setup.agent.cache_seconds),
    ).first()
    # A tombstone's hash is no content's.
    if decision is None or bytes(decision.content_hash) != content_hash:
        return None
    return as_completion(decision, reason=kept[1])


def keep_answer(*, name: str, seconds: int, decision_id: uuid.UUID, written: Written) -> None:
    """After the decision's commit. What the ledger does not hold whole is not kept."""
    unread = any("unread" in call for call in written.tool_calls())
    if name and written.finish_reason in ENDINGS and not (written.is_empty or written.holds_more or unread):
        cache.set(name, [str(decision_id), written.finish_reason], timeout=seconds)


def as_completion(decision: Decision, *, reason: str, anew: bool = True) -> dict[str, Any]:
    """A chat.completion of what the ledger holds. `anew`: its calls get ids of their own, as a conversation may hold
    the same answer twice."""
    message: dict[str, Any] = {"role": "assistant", "content": decision.completion}
    if isinstance(decision.action, list) and decision.action:
        message["tool_calls"] = [
            {"index": index, **_id_of(call, anew), "type": "function", "function": _function(call)}
            for index, call in enumerate(decision.action)
        ]
    if decision.reasoning and not anew:
        message["reasoning_content"] = decision.reasoning
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reason}
    if decision.propensity == 1 or decision.token_ids is not None:  # its server measured it
        logprob = 0.0 if decision.propensity == 1 else None
        choice["reckoner"] = {"policy_logprob": logprob, "token_ids": decision.token_ids}
    answer: dict[str, Any] = {"choices": [choice]}
    if decision.tokens_in is not None and decision.tokens_out is not None:
        answer["usage"] = {
            "prompt_tokens": decision.tokens_in,
            "completion_tokens": decision.tokens_out,
            "total_tokens": decision.tokens_in + decision.tokens_out,
        }
    return answer


def _id_of(call: Mapping[str, Any], anew: bool) -> dict[str, str]:
    """None where its server gave none."""
    if anew:
        return {"id": f"call_{uuid.uuid4().hex}"}
    return {"id": call["id"]} if "id" in call else {}


def _function(call: Mapping[str, Any]) -> dict[str, str]:
    unread = call.get("unread")
    arguments = unread if isinstance(unread, str) else msgspec.json.encode(call["arguments"]).decode()
    return {"name": call["name"], "arguments": arguments}


def as_chunks(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A chat.completion as the chunks of a stream: all of it in one piece, its end, the usage."""
    [choice] = answer["choices"]
    ending = {name: value for name, value in choice.items() if name != "message"}
    chunks = [
        {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        {"choices": [{**ending, "delta": {}}]},
    ]
    return [*chunks, {"choices": [], "usage": answer["usage"]}] if "usage" in answer else chunks
