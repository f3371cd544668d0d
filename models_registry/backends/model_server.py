"""Speaks with Reckoner's own model server: probabilities of offered options, and answers that it writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx

from models_registry.backends.answers import MalformedAnswer, decode
from models_registry.backends.endpoint import Endpoint, Score, ScoreItem, WriteItem, Written, own_endpoint
from models_registry.backends.outbound import SENT, fetch
from models_registry.backends.writing import chat_body, read_chat, write_each
from models_registry.errors import BackendRefused, BackendTooSlow, BackendUnavailable

MAX_ITEMS = 256
WRITE_AT_ONCE = 32
"""The server answers so many chats together."""
REFUSALS = frozenset({"invalid_request", "unsupported_parameter", "options_ambiguous", "context_length_exceeded"})


def is_reachable() -> bool:
    """Whether the own model server answers; asked before work that would be in vain without one."""
    try:
        ModelServerClient().check(own_endpoint(), seconds=own_endpoint().timeout_seconds)
    except BackendUnavailable:
        return False
    return True


def score(items: Sequence[ScoreItem]) -> list[Score]:
    """Asks the own model server; one answer per item, in order. Raises BackendUnavailable, BackendRefused."""
    endpoint = own_endpoint()
    return ModelServerClient().score(endpoint, items, seconds=endpoint.timeout_seconds)


class ModelServerClient:
    """An `endpoint.Client`."""

    def score(self, endpoint: Endpoint, items: Sequence[ScoreItem], *, seconds: float) -> list[Score]:
        scores: list[Score] = []
        for start in range(0, len(items), MAX_ITEMS):
            questions = [
                {
                    "model": item.model,
                    "prompt": item.prompt.text,
                    "options": list(item.options),
                    "max_prompt_tokens": item.max_prompt_tokens,
                    **({"system": item.prompt.system} if item.prompt.system else {}),
                }
                for item in items[start : start + MAX_ITEMS]
            ]
            answer = _call(endpoint, "/score", {"items": questions}, seconds)
            scores += [_score_of(result) for result in answer["results"]]
        return scores

    def write(self, endpoint: Endpoint, items: Sequence[WriteItem], *, seconds: float) -> list[Written]:
        def ask(item: WriteItem) -> Written:
            began = time.monotonic()
            answer = _call(endpoint, "/v1/chat/completions", chat_body(endpoint, item), seconds)
            return read_chat(endpoint, item, answer, seconds=time.monotonic() - began)

        return write_each(items, ask, at_once=WRITE_AT_ONCE)

    def load(self, endpoint: Endpoint, model: str) -> None:
        _call(endpoint, "/load", {"model": model}, endpoint.timeout_seconds)

    def check(self, endpoint: Endpoint, *, seconds: float) -> None:
        try:
            answer = fetch(endpoint, "GET", "/readyz", None, seconds)
        except httpx.HTTPError as error:
            raise BackendUnavailable(f"{endpoint.name} does not answer: {type(error).__name__}.") from error
        if not answer.is_success:
            raise BackendUnavailable(f"{endpoint.name} answered {answer.status_code}.")


def _score_of(result: dict[str, Any]) -> Score:
    if "error" in result:
        error = result["error"]
        return Score(None, str(error["message"]), refused=error["code"] in REFUSALS)
    return Score(tuple(result["probabilities"]))


def _call(endpoint: Endpoint, path: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Raises BackendUnavailable (nobody answers, or 5xx) or BackendRefused (4xx).

    When every item of a request failed for one reason the server answers with that reason's status and the items'
    results: those are for the caller to judge.
    """
    began = time.monotonic()
    try:
        response = fetch(endpoint, "POST", path, body, seconds)
    except httpx.ReadTimeout as error:
        slow = BackendTooSlow(f"The {endpoint.name} did not answer within {seconds:g} s.")
        raise slow.after(time.monotonic() - began) from error
    except httpx.HTTPError as error:
        silent = BackendUnavailable(f"The {endpoint.name} does not answer: {type(error).__name__}.")
        raise silent.after(time.monotonic() - began if isinstance(error, SENT) else None) from error
    held = time.monotonic() - began if response.is_success else None
    try:
        answer = decode(response.content)
    except MalformedAnswer as error:
        lack = BackendUnavailable(f"The {endpoint.name} answered {response.status_code} without JSON.")
        raise lack.after(held) from error
    if not isinstance(answer, dict):
        lack = BackendUnavailable(f"The {endpoint.name} answered {response.status_code} with no JSON object.")
        raise lack.after(held)
    if "results" in answer:
        return answer
    if response.status_code >= 500:
        raise BackendUnavailable(f"The {endpoint.name} answered {response.status_code}.")
    if response.status_code >= 400:
        raise BackendRefused(str(answer.get("error", {}).get("message", response.status_code)))
    return answer
