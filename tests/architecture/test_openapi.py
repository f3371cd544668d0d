"""The served description of the API: valid, complete, and true about who is turned away."""

import json

import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

ENVELOPE = {"code", "message", "fields", "request_id"}


@pytest.fixture(scope="module")
def document():
    answer = Client().get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    assert answer.status_code == 200
    return json.loads(answer.content)


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in {"get", "post", "put", "patch", "delete"}:
                yield method, path, operation


def test_the_document_is_valid_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_operation_ids_are_unique(document):
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


def test_every_operation_states_the_error_envelope(document):
    for method, path, operation in operations(document):
        for status in ("400", "401", "403"):
            schema = operation["responses"][status]["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith("/Error"), (method, path, status)


@pytest.mark.django_db
def test_every_operation_turns_an_anonymous_caller_away_with_the_envelope(document):
    found = list(operations(document))
    assert len(found) >= 20
    for method, path, _ in found:
        url = path.replace("{slug}", "filer").replace("{id}", "0195e1d8-1111-7111-8111-111111111111")
        assert "{" not in url
        answer = Client().generic(method.upper(), url, b"{}", content_type="application/json")
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        error = answer.json()["error"]
        assert set(error) == ENVELOPE
        assert error["code"] == "not_authenticated"
        assert error["request_id"] == answer.headers["X-Request-Id"]
