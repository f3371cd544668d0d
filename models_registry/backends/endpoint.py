"""Where a model server is, what it can do, and how long it may take: a value, made of a row or of the settings."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from django.conf import settings

from models_registry.backends.keys import is_bound
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendUnavailable
from models_registry.models import Backend, BackendKind, Capability

OWN = "model server"
CONNECT_SECONDS = 2.0
MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`backend` is None for the instance's own model server. Prices are for a million tokens."""

    name: str
    kind: str
    url: str
    backend: uuid.UUID | None = None
    key_variable: str = ""
    capabilities: frozenset[str] = frozenset()
    connect_seconds: float = CONNECT_SECONDS
    timeout_seconds: float = 20.0
    retries: int = 0
    price_in: Decimal = Decimal(0)
    price_out: Decimal = Decimal(0)

    def can(self, capability: str) -> bool:
        return capability in self.capabilities

    @property
    def asked_as_trained(self) -> bool:
        """Whether it serves models of ours, which are asked as in training."""
        return self.kind == BackendKind.MODEL_SERVER or self.can(Capability.GRAMMAR)

    @property
    def secret(self) -> str:
        """The key, read when it is used. Raises BackendUnavailable where its variable is not set, or may not be sent to
        this server."""
        if self.backend is None:
            return str(settings.MODEL_SERVER_TOKEN)
        if not self.key_variable:
            return ""
        if not is_bound(self.key_variable, self.url):
            raise BackendUnavailable(
                f"The key of {self.key_variable} may not be sent to backend {self.name}: the operator allows it by "
                "RECKONER_BACKEND_KEYS."
            )
        if not (key := os.environ.get(self.key_variable, "")):
            raise BackendUnavailable(f"Backend {self.name} needs the environment variable {self.key_variable}.")
        return key

    def price(self, tokens_in: int | None, tokens_out: int | None) -> Decimal | None:
        """What an answer cost; None where the server did not count its tokens."""
        if tokens_in is None or tokens_out is None:
            return None
        return (self.price_in * tokens_in + self.price_out * tokens_out) / MILLION


def own_endpoint() -> Endpoint:
    """The instance's own model server, which every stored version can be asked of."""
    return Endpoint(
        name=OWN,
        kind=BackendKind.MODEL_SERVER,
        url=settings.MODEL_SERVER_URL,
        capabilities=frozenset(Capability.values) - {Capability.ADAPTERS, Capability.GRAMMAR},
        timeout_seconds=settings.MODEL_SERVER_TIMEOUT_SECONDS,
    )


def endpoint_of(backend: Backend) -> Endpoint:
    return Endpoint(
        name=backend.name,
        kind=backend.kind,
        url=backend.url.rstrip("/"),
        backend=backend.id,
        key_variable=backend.key_variable,
        capabilities=frozenset(backend.capabilities),
        connect_seconds=backend.connect_seconds,
        timeout_seconds=backend.timeout_seconds,
        retries=backend.retries,
        price_in=backend.price_in,
        price_out=backend.price_out,
    )


@dataclass(frozen=True, slots=True)
class ScoreItem:
    """One question: which of `options` does the model prefer after `prompt`? `model` is its name at the server, of our
    own an artifact's digest. `max_prompt_tokens` is where our model server cuts a prompt."""

    model: str
    prompt: Prompt
    options: tuple[str, ...]
    max_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """`probabilities`, one per option, sum 1; or None with the reason in `error`.

    `picked`: the server gives no probabilities and has named one option, which has probability 1 here: the policy that
    acts is exact, given that pick, but it says nothing of how sure the model was.
    `refused`: the question itself is wrong, and no other model would answer it either. `held`: as of
    BackendUnavailable, where this item's server failed.
    """

    probabilities: tuple[float, ...] | None
    error: str | None = None
    refused: bool = False
    picked: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None
    held: float | None = None


@dataclass(frozen=True, slots=True)
class WriteItem:
    """One answer to write after `prompt`: text, or JSON of the form `schema`, or calls of `tools`, each {name,
    description, parameters}. `max_prompt_tokens` is where our model server cuts a prompt, `max_tokens` where an
    answer ends; None: neither is limited. `must_call`: a model of ours is held to calls, where there are tools; else it
    may answer in words."""

    model: str
    prompt: Prompt
    max_prompt_tokens: int | None
    max_tokens: int | None
    temperature: float
    schema: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    must_call: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """`text` as the server wrote it, or None with the reason in `error`.

    calls: of an answer with tools, [{name, arguments}], with an `id` where the server gave one, and empty where it is
    in words. finish_reason: as the server says it. logprobs: of each token under the model itself, where the server
    tells them; token_ids likewise. held: as of Score.
    """

    text: str | None
    error: str | None = None
    calls: tuple[Mapping[str, Any], ...] = ()
    finish_reason: str | None = None
    logprobs: tuple[float, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    held: float | None = None

    @property
    def cut(self) -> bool:
        """The answer ended at its limit of tokens."""
        return self.finish_reason == "length"


class Client(Protocol):
    """How one kind of server is asked. Errors of the whole request are BackendUnavailable or BackendRefused."""

    def score(self, endpoint: Endpoint, items: Sequence[ScoreItem], *, seconds: float) -> list[Score]:
        """One answer per item, in order, within `seconds`. An item that fails carries its error; the others stand."""
        ...

    def write(self, endpoint: Endpoint, items: Sequence[WriteItem], *, seconds: float) -> list[Written]:
        """As `score`, of answers that the server writes."""
        ...

    def load(self, endpoint: Endpoint, model: str) -> None:
        """Has the server ready the model, or says that it does not have it."""
        ...

    def check(self, endpoint: Endpoint, *, seconds: float) -> None:
        """Whether it answers: raises where it does not."""
        ...
