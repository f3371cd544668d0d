"""What models refuse of OpenAI's parameters, and what is sent to them afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from models_registry.backends.asking import breaker_of, forget_breakers
from models_registry.backends.endpoint import Endpoint
from models_registry.backends.parameters import adapt, forget_refusals, learn, refuses
from models_registry.models import BackendKind

SERVER = Endpoint("server", BackendKind.OPENAI, "http://127.0.0.1:1/v1")
OPENAI = Endpoint("openai", BackendKind.OPENAI, "https://api.openai.com/v1")
AZURE = Endpoint("azure", BackendKind.OPENAI, "https://us.openai.azure.com/openai/v1")
LOOKS_LIKE_IT = Endpoint("other", BackendKind.OPENAI, "https://notopenai.com/v1")


@pytest.fixture(autouse=True)
def nothing_learnt() -> Iterator[None]:
    forget_refusals()
    yield
    forget_refusals()


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        (SERVER, "max_tokens"),
        (LOOKS_LIKE_IT, "max_tokens"),
        (OPENAI, "max_completion_tokens"),
        (AZURE, "max_completion_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_server_knows(endpoint: Endpoint, name: str) -> None:
    for given in ({"max_tokens": 5}, {"max_completion_tokens": 5}, {"max_tokens": 5, "max_completion_tokens": 5}):
        assert adapt(endpoint, "m", {**given, "temperature": 0}) == {name: 5, "temperature": 0}
    assert adapt(endpoint, "m", {"top_p": 1}) == {"top_p": 1}


@pytest.mark.parametrize(
    ("refusal", "parameter", "learns"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens", "max_tokens"),
        ("server answered 400: Unsupported parameter: 'max_tokens' is not supported.", None, "max_tokens"),
        (
            "'temperature' does not support 0 with this model. Only the default (1) is supported.",
            "temperature",
            "temperature",
        ),
        ("max_tokens is too large: 999", "max_tokens", None),
        ("This model's maximum context length is 4096 tokens", None, None),
        ("Unsupported value", "messages", None),
        ("", None, None),
    ],
)
def test_a_refusal_is_learnt_from_where_it_is_about_a_parameter(
    refusal: str, parameter: str | None, learns: str | None
) -> None:
    sent: dict[str, Any] = {"max_tokens": 5, "temperature": 0}
    assert learn(SERVER, "m", sent, refusal, parameter) == (learns is not None)
    assert [name for name in ("max_tokens", "temperature") if refuses(SERVER, "m", name)] == (
        [learns] if learns else []
    )
    assert not refuses(SERVER, "other", "max_tokens")
    assert not (learns and learn(SERVER, "m", sent, refusal, parameter))  # once


def test_a_server_that_refuses_both_names_is_not_asked_for_ever() -> None:
    refusal = "Unsupported parameter: '{}'"
    assert learn(SERVER, "m", adapt(SERVER, "m", {"max_tokens": 5}), refusal.format("max_tokens"))
    assert not learn(SERVER, "m", adapt(SERVER, "m", {"max_tokens": 5}), refusal.format("max_completion_tokens"))


def test_what_one_backend_learns_changes_no_other_at_the_same_address() -> None:
    ours, theirs = (replace(SERVER, backend=uuid.UUID(int=number)) for number in (1, 2))
    sent = {"max_tokens": 5, "temperature": 0}
    assert learn(ours, "m", sent, "unsupported: temperature", "temperature")
    assert adapt(ours, "m", sent) == {"max_tokens": 5}
    assert adapt(theirs, "m", sent) == sent


def test_the_breaker_of_a_backend_leaves_others_at_the_same_address_alone() -> None:
    ours, theirs = (replace(SERVER, backend=uuid.UUID(int=number)) for number in (1, 2))
    forget_breakers()
    try:
        breaker_of(ours).failed(0.0, at_once=True)
        assert not breaker_of(ours).allows(0.0)
        assert breaker_of(theirs).allows(0.0)
    finally:
        forget_breakers()
