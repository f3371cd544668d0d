"""The OpenAPI document of the gateway: chat completions, responses and models in OpenAI's forms.

The gateway serves it at `/openapi.json`, and the API beside its own (`project.urls`). Bodies are described by the types
that read them, with whatever else OpenAI's clients send, which goes on to the model's server.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from decisions.answer_ids import SCHEMA
from decisions.chats.answering import FORMS
from decisions.chats.faults import RATE_LEFT, RATE_LIMIT, RATE_RESET, SHOULD_RETRY, as_openai
from decisions.chats.requests import ChatBody
from decisions.chats.responses import ResponseBody
from decisions.errors import Erased, UnknownAgent
from workspaces.errors import (
    DiskFull,
    FieldFault,
    InFlight,
    InvalidInput,
    KeyReused,
    NotAllowed,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from workspaces.http.claims import OTHER_REQUEST
from workspaces.http.idempotency import IN_FLIGHT, REPLAYED
from workspaces.http.openapi import IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, REFUSALS
from workspaces.models import Scope

HEADERS: Mapping[str, str] = {
    "X-Reckoner-Unit": "Whom the decision is about; else `user`, else `safety_identifier`",
    "X-Reckoner-Episode": "The episode that it belongs to, by its name",
    "X-Reckoner-Item": "The item that it is about",
    "X-Reckoner-Project": "The project that it belongs to",
    "X-Reckoner-User": "The person who asks, for erasure",
    "X-Reckoner-External-Id": "Your own id of it",
}
"""Headers of a chat, and what they say of its decision."""
DECISION_ID, CACHED = "X-Reckoner-Decision-Id", "X-Reckoner-Cached"
STATUSES = {
    400: "The request is invalid; `param` names the first field. Or the model's server refuses it.",
    401: "The key is missing, unknown, expired or revoked.",
    403: "The key lacks the scope route:read, or may not ask this agent.",
    404: "The model does not exist or has no champion.",
    409: "The first request with this Idempotency-Key has no answer yet. Send the same request again.",
    410: "The answer to this Idempotency-Key was erased.",
    413: "The body is too long.",
    422: "The Idempotency-Key was used for another request. Send a new key.",
    429: "Too many requests, or the key's budget is spent or reserved. Wait for Retry-After.",
    503: "No server of the model answers, or the gateway is full. Send the same request again.",
    507: "The disk of the database is full. Send the same request again once there is space.",
}
ERRORS = (
    InvalidInput("The chat is invalid.", faults=[FieldFault("messages", "is missing", "a list of messages")]),
    NotAllowed(f"This call needs the scope {Scope.ROUTE_READ.value}."),
    UnknownAgent(f"There is no model 'helpr' in this workspace. Give {FORMS}."),
    InFlight(IN_FLIGHT),
    Erased.of([uuid.UUID("01a1f805-50a4-7d43-a901-42a0ce80c4b0")]),
    TooLarge("The body has more than 20971520 bytes."),
    KeyReused(OTHER_REQUEST),
    TooManyRequests("This key may send 60 requests per minute. Wait for the time in Retry-After.", wait=17, limit=60),
    Unavailable("The database does not answer. Send the same request again."),
    DiskFull("The database's disk is full. Nothing was kept. Send the same again once there is space."),
)
"""An error of each status, as examples."""
EXAMPLES = {status: body for status, body, _ in map(as_openai, ERRORS)}
TEXT = {"type": "string"}
RATE_HEADERS = {
    RATE_LIMIT: {"schema": TEXT, "description": "Requests that the key may send in a minute", "example": "60"},
    RATE_LEFT: {"schema": TEXT, "description": "Those of them that are left", "example": "59"},
    RATE_RESET: {"schema": TEXT, "description": "The time until the minute is over", "example": "17s"},
}
"""Headers of answers to a key with a limit."""
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": TEXT, "type": TEXT, "param": {"type": ["string", "null"]}, "code": TEXT},
        }
    },
}
RECKONER = {
    "type": "object",
    "description": "The decision that the answer is",
    "required": ["decision_id", "agent", "model_version"],
    "properties": {
        "decision_id": {"type": "string", "format": "uuid"},
        "agent": TEXT,
        "model_version": TEXT,
        "variant": {"type": ["string", "null"]},
        "assignment_probability": {"type": ["number", "null"]},
        "fallback": {"type": "boolean"},
        "propensity": {"type": ["number", "null"]},
        "cached": {"type": "boolean"},
    },
}
MODEL = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {"id": TEXT, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": TEXT},
}
COMPLETION = {
    "type": "object",
    "description": "OpenAI's chat.completion",
    "required": ["id", "object", "created", "model", "choices", "reckoner"],
    "properties": {
        "id": dict(SCHEMA),
        "object": {"const": "chat.completion"},
        "created": {"type": "integer"},
        "model": TEXT,
        "choices": {"type": "array", "items": {"type": "object"}},
        "usage": {"type": ["object", "null"]},
        "reckoner": {"$ref": "#/components/schemas/Reckoner"},
    },
}
RESPONSE = {
    "type": "object",
    "description": "OpenAI's response",
    "required": ["id", "object", "created_at", "status", "model", "output"],
    "properties": {
        "id": dict(SCHEMA),
        "object": {"const": "response"},
        "created_at": {"type": "integer"},
        "status": TEXT,
        "model": TEXT,
        "output": {"type": "array", "items": {"type": "object"}},
        "usage": {"type": ["object", "null"]},
        "reckoner": {"$ref": "#/components/schemas/Reckoner"},
    },
}
ABOUT = (
    "Programs that speak OpenAI's protocol use it as if it were OpenAI. Every answer is a decision in the ledger. "
    "It is a process of its own, with an address of its own."
)
NAMED = {"name": "model", "in": "path", "required": True, "schema": TEXT, "example": "helper"}
QUESTION = {"model": "helper", "messages": [{"role": "user", "content": "How do I get to Oslo?"}], "user": "ann"}


def build_document() -> dict[str, Any]:
    """OpenAPI 3.1, as plain values."""
    _, bodies = msgspec.json.schema_components([ChatBody, ResponseBody], ref_template="#/components/schemas/{name}")
    given = {"model": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The slug of an agent"}}
    response = {**bodies["ResponseBody"], "properties": {**given, **bodies["ResponseBody"]["properties"]}}
    response["required"] = ["model", *response["required"]]
    schemas = {
        **bodies,
        "ResponseBody": response,
        "Completion": COMPLETION,
        "Response": RESPONSE,
        "Model": MODEL,
        "Reckoner": RECKONER,
        "Error": ERROR,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Reckoner's gateway",
            "version": "1",
            "description": ABOUT,
        },
        "paths": {
            "/v1/chat/completions": {"post": _chat("create_chat_completion", "ChatBody", "Completion", QUESTION)},
            "/v1/responses": {
                "post": _chat(
                    "create_response", "ResponseBody", "Response", {"model": "helper", "input": "How do I get to Oslo?"}
                )
            },
            "/v1/models": {
                "get": _operation(
                    "list_models",
                    "Lists what the key may ask for: agents that chat, and their versions with an alias.",
                    {
                        "type": "object",
                        "required": ["object", "data"],
                        "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _ref("Model")}},
                    },
                    refusals=(401, 403, 429, 503, 507),
                )
            },
            "/v1/models/{model}": {
                "get": {
                    **_operation(
                        "read_model", "Reads one of them.", _ref("Model"), refusals=(401, 403, 404, 429, 503, 507)
                    ),
                    "parameters": [
                        {"name": "model", "in": "path", "required": True, "schema": TEXT, "example": "helper"}
                    ],
                }
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key, PREFIX.SECRET"}},
        },
        "security": [{"key": []}],
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(name: str, says: str, answer: Mapping[str, Any], *, refusals: tuple[int, ...]) -> dict[str, Any]:
    request_id = {"X-Request-Id": {"schema": TEXT, "description": "Of this request in the logs"}}
    responses: dict[str, Any] = {
        "200": {
            "description": "The answer.",
            "headers": dict(request_id),
            "content": {"application/json": {"schema": dict(answer)}},
        }
    }
    for status in refusals:
        headers = {**request_id, **REFUSALS[status].headers}
        if status == 429:
            again = {"schema": {"enum": ["false"]}, "description": "The budget of the day is spent"}
            headers |= {**RATE_HEADERS, SHOULD_RETRY: again}
        content: dict[str, Any] = {"application/json": {"schema": _ref("Error")}}
        if status in EXAMPLES:
            content["application/json"]["example"] = EXAMPLES[status]
        responses[str(status)] = {"description": STATUSES[status], "headers": headers, "content": content}
    return {"operationId": name, "summary": says, "responses": responses}


def _chat(name: str, body: str, answer: str, example: Mapping[str, Any]) -> dict[str, Any]:
    operation = _operation(
        name,
        "Answers by the agent's champion, or the arm of an experiment, and records the decision.",
        _ref(answer),
        refusals=(400, 401, 403, 404, 409, 410, 413, 422, 429, 503, 507),
    )
    operation["parameters"] = [
        {
            "name": header,
            "in": "header",
            "description": says,
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }
        for header, says in HEADERS.items()
    ] + [
        {
            "name": "Cache-Control",
            "in": "header",
            "description": "`no-cache`: the answer does not come from the agent's cache",
            "schema": TEXT,
        },
        IDEMPOTENCY_KEY,
    ]
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": _ref(body), "example": dict(example)}},
    }
    whole = operation["responses"]["200"]
    whole["headers"] |= {
        **RATE_HEADERS,
        DECISION_ID: {"schema": {"type": "string", "format": "uuid"}, "description": "The decision"},
        CACHED: {"schema": {"enum": ["true"]}, "description": "The answer comes from the cache"},
        REPLAYED: IDEMPOTENT_REPLAYED,
    }
    whole["content"]["text/event-stream"] = {
        "schema": {"type": "string", "description": "With `stream`: OpenAI's events"}
    }
    return operation
