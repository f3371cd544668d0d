"""Client of Reckoner's own model server: probabilities of offered options, and chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpx
from django.conf import settings

from models_registry.errors import BackendRefused, BackendUnavailable

MAX_ITEMS = 256
REFUSALS = frozenset({"invalid_request", "unsupported_parameter", "options_ambiguous", "context_length_exceeded"})


@dataclass(frozen=True, slots=True)
class ScoreItem:
    """One question: which of `options` does the model (an artifact's digest) prefer after `prompt`?"""

    model: str
    prompt: str
    options: tuple[str, ...]
    max_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """`probabilities`, one per option, sum 1; or None with the reason in `error`.

    `refused`: the question itself is wrong, and no other model would answer it either.
    """

    probabilities: tuple[float, ...] | None
    error: str | None = None
    refused: bool = False


@lru_cache(maxsize=1)
def client() -> httpx.Client:
    """One pooled client a process; connections outlive requests."""
    return httpx.Client(
        base_url=settings.MODEL_SERVER_URL,
        timeout=httpx.Timeout(settings.MODEL_SERVER_TIMEOUT_SECONDS, connect=2.0),
        headers={"Authorization": f"Bearer {settings.MODEL_SERVER_TOKEN}"},
    )


def is_reachable() -> bool:
    """Whether a model server answers; asked before work that would be in vain without one."""
    try:
        return client().get("/readyz").is_success
    except httpx.HTTPError:
        return False


def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Raises BackendUnavailable (nobody answers, or 5xx) or BackendRefused (4xx).

    When every item of a request failed for one reason the server answers with that reason's status and the items'
    results: those are for the caller to judge.
    """
    try:
        response = client().post(path, json=body)
    except httpx.HTTPError as error:
        raise BackendUnavailable(f"The model server does not answer: {type(error).__name__}.") from error
    try:
        answer: dict[str, Any] = response.json()
    except ValueError as error:
        raise BackendUnavailable(f"The model server answered {response.status_code} without JSON.") from error
    if "results" in answer:
        return answer
    if response.status_code >= 500:
        raise BackendUnavailable(f"The model server answered {response.status_code}.")
    if response.status_code >= 400:
        raise BackendRefused(str(answer.get("error", {}).get("message", response.status_code)))
    return answer


def load(digest: str) -> None:
    """Has the server read and verify this artifact now. Raises BackendUnavailable, or BackendRefused where the server
    answers and cannot serve it."""
    call("/load", {"model": digest})


def score(items: Sequence[ScoreItem]) -> list[Score]:
    """One answer per item, in order. An item that fails carries its error; the others stand."""
    scores: list[Score] = []
    for start in range(0, len(items), MAX_ITEMS):
        part = items[start : start + MAX_ITEMS]
        answer = call(
            "/score",
            {
                "items": [
                    {
                        "model": item.model,
                        "prompt": item.prompt,
                        "options": list(item.options),
                        "max_prompt_tokens": item.max_prompt_tokens,
                    }
                    for item in part
                ]
            },
        )
        for result in answer["results"]:
            if "error" in result:
                error = result["error"]
                scores.append(Score(None, str(error["message"]), refused=error["code"] in REFUSALS))
            else:
                scores.append(Score(tuple(result["probabilities"])))
    return scores
