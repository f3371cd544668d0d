"""The OpenAPI document of the gateway: chat completions, responses and models in OpenAI's forms.

The gateway serves it at `/openapi.json`, and the API beside its own (`project.urls`). Bodies are described by the types
that read them, with whatever else OpenAI's clients send, which goes on to the model's server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from decisions.answer_ids import SCHEMA
from decisions.chats.requests import ChatBody
from decisions.chats.responses import ResponseBody
from workspaces.http.openapi import REFUSALS

HEADERS: Mapping[str, str] = {
    "X-Reckoner-Unit": "Whom the decision is about; else `user`, else `safety_identifier`",
    "X-Reckoner-Episode": "The episode that it belongs to, by its name",
    "X-Reckoner-Item": "The item that it is about",
    "X-Reckoner-Project": "The project that it belongs to",
    "X-Reckoner-User": "The person who asks, for erasure",
    "X-Reckoner-External-Id": "Your own id of it",
}
"""Headers of a chat, and what they say of its decision."""
STATUSES = {
    400: "The request is invalid; `param` names the first field. Or the model's server refuses it.",
    401: "The key is missing, unknown, expired or revoked.",
    403: "The key lacks the scope route:read, or may not ask this agent.",
    404: "The model does not exist or has no champion.",
    413: "The body is too long.",
    429: "Too many requests, or the key's budget is spent. Wait for Retry-After.",
    503: "No server of the model answers, or the gateway is full. Send the same request again.",
}
TEXT = {"type": "string"}
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
                    refusals=(401, 403, 429, 503),
                )
            },
            "/v1/models/{model}": {
                "get": {
                    **_operation("read_model", "Reads one of them.", _ref("Model"), refusals=(401, 403, 404, 429, 503)),
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
        content = {"application/json": {"schema": _ref("Error")}}
        responses[str(status)] = {"description": STATUSES[status], "headers": headers, "content": content}
    return {"operationId": name, "summary": says, "responses": responses}


def _chat(name: str, body: str, answer: str, example: Mapping[str, Any]) -> dict[str, Any]:
    operation = _operation(
        name,
        "Answers by the agent's champion, or the arm of an experiment, and records the decision.",
        _ref(answer),
        refusals=(400, 401, 403, 404, 413, 429, 503),
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
        }
    ]
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": _ref(body), "example": dict(example)}},
    }
    whole = operation["responses"]["200"]
    whole["headers"] |= {
        "X-Reckoner-Decision-Id": {"schema": {"type": "string", "format": "uuid"}, "description": "The decision"},
        "X-Reckoner-Cached": {"schema": {"enum": ["true"]}, "description": "The answer comes from the cache"},
    }
    whole["content"]["text/event-stream"] = {
        "schema": {"type": "string", "description": "With `stream`: OpenAI's events"}
    }
    return operation
