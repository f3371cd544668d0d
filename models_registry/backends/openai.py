"""Speaks with OpenAI-compatible servers: OpenAI, vLLM, llama.cpp, Ollama. A question becomes a chat of one turn.

What they write is read by `writing`. Of options they give no probabilities, so they name one, and the gateway explores
around that pick: the policy that acts is (1 − ε)[a = pick] + ε/K, exact given the pick. An answer that is none of the
options is an error, never a guess.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx

from models_registry.backends.answers import MalformedAnswer, decode, read_completion
from models_registry.backends.endpoint import Endpoint, Score, ScoreItem, WriteItem, Written
from models_registry.backends.outbound import SENT, fetch
from models_registry.backends.parameters import adapt, learn
from models_registry.backends.prompts import Prompt
from models_registry.backends.token_cuts import LEAST_SECONDS, cut_prompt
from models_registry.backends.writing import chat_body, read_chat, write_each
from models_registry.errors import BackendBusy, BackendRefused, BackendTooSlow, BackendUnavailable
from models_registry.models import BackendKind, Capability

AT_ONCE = 8
MAX_TOKENS = 256
BUSY = 429
SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?", re.ASCII)
LATER = frozenset({BUSY, 502, 503, 504})
"""Answers after which the same request may succeed."""
PAUSE_SECONDS = 0.2
FIELD = "choice"


class OpenAIClient:
    """An `endpoint.Client`."""

    def score(self, endpoint: Endpoint, items: Sequence[ScoreItem], *, seconds: float) -> list[Score]:
        """Raises BackendUnavailable where no item could be asked; a single item's failure is its own."""
        if len(items) == 1:
            return [_ask(endpoint, items[0], seconds)]
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(items))) as pool:
            return list(pool.map(lambda item: _try(endpoint, item, seconds), items))

    def write(self, endpoint: Endpoint, items: Sequence[WriteItem], *, seconds: float) -> list[Written]:
        """Raises as `score` does."""

        def ask(item: WriteItem) -> Written:
            prompt, left = _cut(endpoint, item, seconds)
            item, began = replace(item, prompt=prompt), time.monotonic()
            answer = _complete(endpoint, chat_body(endpoint, item), left)
            return read_chat(endpoint, item, answer, seconds=time.monotonic() - began)

        return write_each(items, ask)

    def load(self, endpoint: Endpoint, model: str) -> None:
        """Such servers read models when they start: the model has to be among those that they list."""
        names = [str(row.get("id")) for row in list_models(endpoint, endpoint.timeout_seconds)]
        if names and model not in names:
            raise BackendRefused(f"{endpoint.name} has no model {model}; it has {', '.join(names[:20])}.")

    def check(self, endpoint: Endpoint, *, seconds: float) -> None:
        call(endpoint, "GET", "/models", None, seconds)


def _try(endpoint: Endpoint, item: ScoreItem, seconds: float) -> Score:
    try:
        return _ask(endpoint, item, seconds)
    except BackendUnavailable as error:
        return Score(None, error.message, held=error.held)
    except BackendRefused as error:
        return Score(None, error.message)


def _cut(endpoint: Endpoint, item: ScoreItem | WriteItem, seconds: float) -> tuple[Prompt, float]:
    """The prompt for a model of ours as our model server cuts it, and the seconds that are left. Others' models have
    limits of their own, and are asked with all of it."""
    if not endpoint.can(Capability.GRAMMAR):
        return item.prompt, seconds
    began = time.monotonic()
    try:
        cut = cut_prompt(call, endpoint, item, seconds)
    except BackendUnavailable as error:
        error.held = None  # counting tokens costs nothing
        raise
    return cut, max(seconds - (time.monotonic() - began), LEAST_SECONDS)


def _ask(endpoint: Endpoint, item: ScoreItem, seconds: float) -> Score:
    prompt, left = _cut(endpoint, item, seconds)
    item, began = replace(item, prompt=prompt), time.monotonic()
    answer = _complete(endpoint, _body(endpoint, item), left)
    try:
        answer = read_completion(answer)
    except MalformedAnswer as error:
        raise BackendUnavailable(f"{endpoint.name} answered {error}.").after(time.monotonic() - began) from error
    text = answer["choices"][0]["message"].get("content") or ""
    usage = answer.get("usage") or {}
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    pick = _pick(text, item.options)
    if pick is None:
        lack = f"{endpoint.name} answered {text.strip()[:80]!r}, which is not one of the options."
        return Score(None, lack, tokens_in=tokens_in, tokens_out=tokens_out)
    certain = tuple(float(option == pick) for option in item.options)
    return Score(certain, picked=True, tokens_in=tokens_in, tokens_out=tokens_out)


def _body(endpoint: Endpoint, item: ScoreItem) -> dict[str, Any]:
    """Greedy, and held to the options in the strictest way that the server knows. With the capability `grammar` nothing
    is added to the prompt, which is then the one that a model of ours has learnt from."""
    listed = "\n".join(f"- {option}" for option in item.options)
    body: dict[str, Any] = {"model": item.model, "temperature": 0, "max_tokens": MAX_TOKENS}
    vllm = endpoint.kind == BackendKind.VLLM
    if endpoint.can(Capability.GRAMMAR):
        body["messages"] = item.prompt.as_messages()
        if vllm:
            return body | {"structured_outputs": {"choice": list(item.options)}}
        grammar = "root ::= " + " | ".join(json.dumps(option, ensure_ascii=False) for option in item.options)
        return body | {"grammar": grammar}
    if vllm and endpoint.can(Capability.CHOICE):
        how = "Answer with one of these options, word for word:"
        body["structured_outputs"] = {"choice": list(item.options)}
    elif endpoint.can(Capability.JSON_SCHEMA):
        how = f'Answer as JSON, {{"{FIELD}": …}}, with one of these options, word for word:'
        schema = {
            "type": "object",
            "properties": {FIELD: {"type": "string", "enum": list(item.options)}},
            "required": [FIELD],
            "additionalProperties": False,
        }
        told = {"name": FIELD, "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": told}
    else:
        how = "Answer with one of these options, word for word, and nothing else:"
    return body | {"messages": item.prompt.as_messages(after=f"\n\n{how}\n{listed}")}


def _pick(text: str, options: Sequence[str]) -> str | None:
    """The option that the answer names: as JSON, else word for word, but for space around it."""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if isinstance(told, Mapping) and isinstance(told.get(FIELD), str):
        text = told[FIELD]
    stripped = text.strip()
    return next((option for option in options if option in (text, stripped)), None)


def list_models(endpoint: Endpoint, seconds: float) -> list[Mapping[str, Any]]:
    """The models that the server names. Raises as `call` does."""
    rows = call(endpoint, "GET", "/models", None, seconds).get("data")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def call(endpoint: Endpoint, method: str, path: str, body: Any, seconds: float) -> dict[str, Any]:
    """The answer as JSON. Raises as `send` does, and BackendUnavailable (5xx, no JSON) or BackendRefused (4xx)."""
    began = time.monotonic()
    response = send(endpoint, method, path, body, seconds)
    return _read(endpoint, response, time.monotonic() - began)


def _complete(endpoint: Endpoint, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """A chat completion; again without the parameters that this model refuses. Raises as `call` does."""
    ends = time.monotonic() + seconds
    while True:
        sent = adapt(endpoint, body["model"], body)
        try:
            return call(endpoint, "POST", "/chat/completions", sent, seconds)
        except BackendRefused as error:
            if not learn(endpoint, body["model"], sent, error.message):
                raise
        seconds = max(ends - time.monotonic(), LEAST_SECONDS)


def send(endpoint: Endpoint, method: str, path: str, body: Any, seconds: float) -> httpx.Response:
    """The answer, whatever its status. What may succeed a moment later is tried again, `endpoint.retries` times, within
    `seconds`. Raises BackendTooSlow, or BackendUnavailable where nobody answers; its `held` is of the last attempt that
    was sent."""
    ends, held = time.monotonic() + seconds, None
    for attempt in range(endpoint.retries + 1):
        began = time.monotonic()
        left = ends - began
        last = attempt == endpoint.retries
        try:
            response = fetch(endpoint, method, path, body, max(left, LEAST_SECONDS))
        except httpx.ReadTimeout as error:
            slow = BackendTooSlow(f"{endpoint.name} did not answer within {seconds:g} s.")
            raise slow.after(time.monotonic() - began) from error
        except httpx.HTTPError as error:
            held = time.monotonic() - began if isinstance(error, SENT) else held
            if last or not _may_wait(attempt, None, ends):
                silent = BackendUnavailable(f"{endpoint.name} does not answer: {type(error).__name__}.")
                raise silent.after(held) from error
            continue
        if response.status_code in LATER and not last and _may_wait(attempt, response, ends):
            continue
        return response
    raise AssertionError("the last attempt returns or raises")


def _may_wait(attempt: int, response: httpx.Response | None, ends: float) -> bool:
    """Pauses before the next attempt where there is time for it."""
    seconds = _seconds_in(response.headers.get("retry-after", "")) if response is not None else None
    pause = PAUSE_SECONDS * 2**attempt if seconds is None else seconds
    if time.monotonic() + pause >= ends:
        return False
    time.sleep(pause)
    return True


def _read(endpoint: Endpoint, response: httpx.Response, held: float) -> dict[str, Any]:
    try:
        answer = decode(response.content)
    except MalformedAnswer:
        answer = None
    if response.is_success and isinstance(answer, dict):
        return answer
    if response.is_success:
        raise BackendUnavailable(f"{endpoint.name} answered what is no JSON object.").after(held)
    said, status = said_in(answer)[:300], response.status_code
    if 400 <= status < 500 and status not in (401, 403, 404, 408, BUSY):
        raise BackendRefused(f"{endpoint.name} answered {status}{f': {said}' if said else ''}.")
    raise unavailable_by(endpoint, status, said, response.headers)


def unavailable_by(endpoint: Endpoint, status: int, said: str, headers: Mapping[str, str]) -> BackendUnavailable:
    """The error that an answer of this status is. `said`: what the server says of it."""
    error = BackendBusy if status == BUSY else BackendUnavailable
    unavailable = error(f"{endpoint.name} answered {status}{f': {said}' if said else ''}.")
    if isinstance(unavailable, BackendBusy):
        unavailable.wait = max(1, math.ceil(_seconds_in(headers.get("retry-after", "")) or 1))
    return unavailable


def _seconds_in(retry_after: str) -> float | None:
    """Seconds of a Retry-After header; None for a date, or none."""
    return float(retry_after) if SECONDS.fullmatch(retry_after.strip()) else None


def said_in(answer: Any) -> str:
    """The message of an error, in the shapes that OpenAI-compatible servers have for it; "" where there is none."""
    told = answer.get("error") if isinstance(answer, Mapping) else None
    message = told.get("message") if isinstance(told, Mapping) else told
    return str(message) if message else ""
