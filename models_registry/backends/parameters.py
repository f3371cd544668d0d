"""Parameters that some models refuse: the limit of tokens under one of its two names, and any temperature but theirs.

OpenAI's reasoning models take `max_completion_tokens` only and refuse `temperature: 0`; older compatible servers know
`max_tokens` only. No list of models stays right for long, so a refusal is learnt from: the same request goes again
without what was refused, and later ones never have it. Kept in the process; another learns by one refusal of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from models_registry.backends.endpoint import Endpoint

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
TEMPERATURE = "temperature"
OPENAI_HOSTS = ("openai.com", "openai.azure.com")
MOST_KEPT = 4096
REFUSING = (
    "unsupported", "not supported", "does not support", "unrecognized", "unknown", "unexpected", "not permitted",
)  # fmt: skip

Key = tuple[uuid.UUID | None, str, str]
_REFUSED: dict[Key, frozenset[str]] = {}
"""Names of parameters, by the backend, its address and its model. Not by the address alone: a server's words may repeat
what a client sent, and no workspace may take a parameter from another."""


def adapt(endpoint: Endpoint, model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the names that this model takes, and without a temperature that it does not."""
    adapted = dict(body)
    limit = adapted.pop(NEW_LIMIT, None) or adapted.pop(OLD_LIMIT, None)
    adapted.pop(OLD_LIMIT, None)
    if limit is not None:
        adapted[_limit_of(endpoint, model)] = limit
    if refuses(endpoint, model, TEMPERATURE):
        adapted.pop(TEMPERATURE, None)
    return adapted


def refuses(endpoint: Endpoint, model: str, parameter: str) -> bool:
    """Whether the model has refused it before."""
    return parameter in _REFUSED.get(_key_of(endpoint, model), ())


def learn(endpoint: Endpoint, model: str, sent: Mapping[str, Any], refusal: str, parameter: str | None = None) -> bool:
    """Whether the refusal of `sent` is about one of these parameters, so that it is worth asking again. `refusal`: the
    server's message; `parameter`: the one that it names, where it does."""
    for name in (OLD_LIMIT, NEW_LIMIT, TEMPERATURE):
        if name not in sent or refuses(endpoint, model, name):
            continue
        if name != TEMPERATURE and refuses(endpoint, model, NEW_LIMIT if name == OLD_LIMIT else OLD_LIMIT):
            continue  # it refuses both: the number is wrong, not the name
        if _is_about(name, refusal.lower(), parameter):
            if len(_REFUSED) >= MOST_KEPT:
                _REFUSED.clear()
            key = _key_of(endpoint, model)
            _REFUSED[key] = _REFUSED.get(key, frozenset()) | {name}
            return True
    return False


def forget_refusals() -> None:
    """Every parameter may be sent again."""
    _REFUSED.clear()


def _key_of(endpoint: Endpoint, model: str) -> Key:
    return endpoint.backend, endpoint.url, model


def _limit_of(endpoint: Endpoint, model: str) -> str:
    if refuses(endpoint, model, OLD_LIMIT):
        return NEW_LIMIT
    if refuses(endpoint, model, NEW_LIMIT):
        return OLD_LIMIT
    # Others may pass over a name that they do not know without a word, and then have no limit at all.
    host = urlsplit(endpoint.url).hostname or ""
    is_openai = any(host == known or host.endswith(f".{known}") for known in OPENAI_HOSTS)
    return NEW_LIMIT if is_openai else OLD_LIMIT


def _is_about(name: str, refusal: str, parameter: str | None) -> bool:
    named = parameter == name or (parameter is None and name in refusal)
    return named and any(word in refusal for word in REFUSING)
