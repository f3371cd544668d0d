"""Answers that a server writes: the request as a chat of one turn, and the answer read. Both kinds of clients use it.

A model of ours is asked as training asks: the prompt alone is the user's turn, and calls of tools are a JSON list in
the form of a recorded action, to which the server holds the answer. Others get schema and tools in OpenAI's shape. The
system prompt is the system message of both. A chat goes to both as it is, with its tools in OpenAI's shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from models_registry.backends.answers import MOST_LISTED, MalformedAnswer, read_completion, read_token_ids
from models_registry.backends.endpoint import Endpoint, WriteItem, Written
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import BackendKind, Capability
from workspaces.storage.storable import read_json

AT_ONCE = 8
MOST_CALLS = 8
"""Calls of tools in one answer of a model of ours, at most."""
NAME = "action"
WHOLE_PROMPT = 1_000_000
"""Tokens, the most that our model server takes as a limit: no prompt is cut."""


def write_each(
    items: Sequence[WriteItem], ask: Callable[[WriteItem], Written], *, at_once: int = AT_ONCE
) -> list[Written]:
    """One answer per item, in order. The only item's failure is raised; of several each has its own."""
    if len(items) == 1:
        return [ask(items[0])]

    def attempt(item: WriteItem) -> Written:
        try:
            return ask(item)
        except BackendUnavailable as error:
            return Written(None, error.message, held=error.held)
        except BackendRefused as error:
            return Written(None, error.message)

    with ThreadPoolExecutor(max_workers=min(at_once, len(items))) as pool:  # nothing in it asks the database
        return list(pool.map(attempt, items))


def chat_body(endpoint: Endpoint, item: WriteItem) -> dict[str, Any]:
    """Raises BackendRefused where the server cannot do what is asked."""
    after = ""
    body: dict[str, Any] = {"model": item.model, "temperature": item.temperature}
    if item.max_tokens is not None:
        body["max_tokens"] = item.max_tokens
    schema = item.schema
    if endpoint.kind == BackendKind.MODEL_SERVER:
        # With it, a limit of the answer is at most what fits beside the prompt, and not refused.
        body["max_prompt_tokens"] = WHOLE_PROMPT if item.max_prompt_tokens is None else item.max_prompt_tokens
    if endpoint.asked_as_trained and not item.prompt.messages:
        schema = calls_schema(item.tools) if item.tools and item.must_call else schema
    elif item.tools:
        if not endpoint.can(Capability.TOOLS):
            raise BackendRefused(f"{endpoint.name} cannot call tools: its capabilities do not include them.")
        body["tools"] = [{"type": "function", "function": dict(tool)} for tool in item.tools]
    elif schema is not None:
        after = f"\n\nAnswer with JSON that fits this schema, and nothing else:\n{json.dumps(schema)}"
    if schema is not None and endpoint.can(Capability.JSON_SCHEMA):
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": NAME, "schema": dict(schema)}}
    if endpoint.can(Capability.LOGPROBS):
        body["logprobs"] = True
    return body | {"messages": item.prompt.as_messages(after)}


def calls_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of a list of calls, {arguments, name}, in the order in which recorded actions are written."""
    calls = []
    shared: dict[str, Any] = {}
    for tool in tools:
        parameters = dict(tool["parameters"])
        shared |= parameters.pop("$defs", {})
        calls.append(
            {
                "type": "object",
                "properties": {"arguments": parameters, "name": {"const": tool["name"]}},
                "required": ["arguments", "name"],
                "additionalProperties": False,
            }
        )
    several = {"type": "array", "items": {"anyOf": calls}, "maxItems": MOST_CALLS}
    return several | ({"$defs": shared} if shared else {})


def read_chat(endpoint: Endpoint, item: WriteItem, answer: Mapping[str, Any], *, seconds: float) -> Written:
    """`seconds`: how long the answer took. Raises BackendUnavailable for one without a message."""
    try:
        answer = read_completion(answer)
    except MalformedAnswer as error:
        raise BackendUnavailable(f"{endpoint.name} answered {error}.").after(seconds) from error
    choice = answer["choices"][0]
    message = choice["message"]
    text = message.get("content") or ""
    usage = answer.get("usage") or {}
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    cut = choice.get("finish_reason") == "length"
    calls: tuple[Mapping[str, Any], ...] = ()
    if item.tools:
        as_list = endpoint.asked_as_trained and not item.prompt.messages
        found = _read_list(item, text) if as_list else _read_calls(message)
        if found is None:
            lack = f"{endpoint.name} answered {text.strip()[:80]!r}, which is not a list of calls"
            lack += " and was cut before its end." if cut else "."
            return Written(None, lack, tokens_in=tokens_in, tokens_out=tokens_out)
        calls = found
    return Written(
        text,
        calls=calls,
        finish_reason=choice.get("finish_reason"),
        logprobs=_read_logprobs(choice),
        token_ids=tuple(ids) if (ids := read_token_ids(choice)) is not None else None,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )


def _read_list(item: WriteItem, text: str) -> tuple[Mapping[str, Any], ...] | None:
    """Calls that a model of ours wrote out, whose content is the action's schema's affair; none where it answered in
    words; None for what should have been calls."""
    try:
        found = read_json(text)
    except ValueError:
        found = None
    if isinstance(found, list) and all(isinstance(one, Mapping) for one in found):
        return tuple(found)
    return None if item.must_call and text.lstrip()[:1] in ("[", "{") else ()


def _read_calls(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    """Calls in OpenAI's shape, their arguments as objects."""
    calls = []
    for one in message.get("tool_calls") or ():
        try:
            told = one["function"]
            arguments = told.get("arguments") or "{}"
            read = read_json(arguments) if isinstance(arguments, str) else arguments
            calls.append({"name": told["name"], "arguments": read} | ({"id": own} if (own := one.get("id")) else {}))
        except (KeyError, TypeError, AttributeError, ValueError):
            return None
    return tuple(calls)


def _read_logprobs(choice: Mapping[str, Any]) -> tuple[float, ...] | None:
    """None where they are not told for every token."""
    told = choice.get("logprobs")
    content = told.get("content") if isinstance(told, Mapping) else None
    if not isinstance(content, list) or not 0 < len(content) <= MOST_LISTED:
        return None
    numbers = [one.get("logprob") if isinstance(one, Mapping) else None for one in content]
    if any(not isinstance(p, int | float) or not math.isfinite(p) or p > 0.0 for p in numbers):
        return None
    return tuple(float(p) for p in numbers if p is not None)
