"""The API's OpenAPI documents: what each holds, and in which format it comes."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from typing import Any

import msgspec
import pytest
from django.test import Client
from jsonschema import Draft202012Validator

from decisions.chats import answering, item_references, repeating, requests
from decisions.chats.faults import as_openai, rate_headers
from decisions.chats.requests import read_chat
from decisions.chats.responses import read_response
from models_registry.backends import chatting
from models_registry.errors import BackendBusy
from project.gateway import app
from project.gateway.app import ABOUT, LONGEST_NAME, Gateway
from project.gateway.document import EXAMPLES, HEADERS, STATUSES, build_document
from tools.openapi import document_faults, operations, schema_faults
from workspaces.errors import ReckonerError, TooManyRequests
from workspaces.http.idempotency import HEADER
from workspaces.http.throttling import Allowance

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.django_db
@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "/gateway", "/notes-app"])
def test_json_is_the_answer_unless_yaml_is_asked_for(name: str) -> None:
    client = Client()
    for accept in ("", "*/*", BROWSER, "application/json"):
        answer = client.get(f"/api/v1/schema{name}", headers={"Accept": accept} if accept else {})
        assert answer["Content-Type"] == "application/json", accept
    document = json.loads(answer.content)
    assert document_faults(document) == []
    yaml = client.get(f"/api/v1/schema{name}?format=yaml")
    assert yaml["Content-Type"].startswith("application/vnd.oai.openapi")
    assert yaml.content.startswith(b"openapi: ")
    assert client.get(f"/api/v1/docs{name}").status_code == 200
    paths = {path for _, path, _ in operations(document)}
    assert any(path.startswith("/api/v1/") for path in paths) is (name == "")
    assert any(path.startswith("/api/training/") for path in paths) is (name == "/notes-app")


def test_the_gateway_s_document_says_what_the_gateway_takes() -> None:
    document = build_document()
    assert document_faults(document) == []
    routes = {
        (route.method.lower(), route.resource.canonical)
        for route in Gateway().build_app().router.routes()
        if route.method != "HEAD" and route.resource is not None and route.resource.canonical.startswith("/v1/")
    }
    assert {(method, path) for method, path, _ in operations(document)} == routes
    assert {header.lower() for header in HEADERS} == set(ABOUT.values())
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            if parameter["name"] in HEADERS:
                assert parameter["schema"]["maxLength"] == LONGEST_NAME, path
    for name, read in (("ChatBody", read_chat), ("ResponseBody", read_response)):
        path = {"ChatBody": "/v1/chat/completions", "ResponseBody": "/v1/responses"}[name]
        media = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert schema_faults(document, media["schema"], media["example"]) == []
        assert read(media["example"]).model == "helper"


def _errors_of_the_gateway() -> dict[str, ReckonerError]:
    """By name, each error that the code of a chat says it raises."""
    known: dict[str, type[ReckonerError]] = {}
    waiting = [ReckonerError]
    while waiting:
        waiting += (found := waiting.pop()).__subclasses__()
        known[found.__name__] = found
    said = " ".join(inspect.getsource(one) for one in (app, answering, chatting, item_references, repeating, requests))
    named = {name for text in re.findall(r"Raises ([^.;]+)", said) for name in re.findall(r"[A-Z]\w+", text)}
    named |= set(re.findall(r"raise ([A-Z]\w+)", said))
    errors = {}
    for name in named & set(known):
        wait = {"wait": 7} if issubclass(known[name], TooManyRequests) else {}
        errors[name] = known[name]("It is so.", **wait)
    assert {"InFlight", "KeyReused", "Erased", "BudgetSpent", "TooLarge", "ChatRefused"} <= set(errors)
    return errors


def test_the_gateway_s_document_says_what_the_gateway_sends() -> None:
    limited = TooManyRequests("Too many.", wait=7, limit=9)
    for _, path, operation in operations(build_document()):
        stated = {
            int(status): {header.lower() for header in response.get("headers", ())}
            for status, response in operation["responses"].items()
        }
        if operation.get("requestBody") is None:
            continue
        for name, error in {**_errors_of_the_gateway(), "limited": limited, "busy": BackendBusy("Busy.")}.items():
            status, body, headers = as_openai(error)
            assert status in stated, (path, name, status)
            assert {header.lower() for header in headers} <= stated[status], (path, name)
            media = operation["responses"][str(status)]["content"]["application/json"]
            assert schema_faults(build_document(), media["schema"], body) == []
        answers = {app.DECISION_ID, app.CACHED, app.REPLAYED, *rate_headers(Allowance(9, 8, 7))}
        assert {header.lower() for header in answers} <= stated[200], path
        assert HEADER in {parameter["name"] for parameter in operation["parameters"]}, path
    assert {*EXAMPLES, 401} == set(STATUSES)


def test_the_gateway_serves_its_document_without_a_key() -> None:
    answer: Any = asyncio.run(Gateway().show_document(None))  # type: ignore[arg-type]
    document = msgspec.json.decode(answer.body)
    assert document == msgspec.json.decode(msgspec.json.encode(build_document()))
    Draft202012Validator.check_schema(document["components"]["schemas"]["ChatBody"])
