"""Asks the servers of versions for scores, and the next one where one fails: the gateway's way to models.

A server that stands first and does not answer costs at most `settings.FALLBACK_SECONDS` where another can answer in its
place, and after that nothing for a while: its breaker is open. The last one gets the time that its row says.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from django.conf import settings

from models_registry.backends.breaker import Breaker
from models_registry.backends.endpoint import Client, Endpoint, Score, ScoreItem
from models_registry.backends.model_server import ModelServerClient
from models_registry.backends.openai import OpenAIClient
from models_registry.backends.places import Place, find_places
from models_registry.errors import BackendRefused, BackendTooSlow, BackendUnavailable
from models_registry.models import BackendKind, ModelVersion

CLIENTS: Mapping[str, Client] = {
    BackendKind.MODEL_SERVER: ModelServerClient(),
    BackendKind.OPENAI: OpenAIClient(),
    BackendKind.VLLM: OpenAIClient(),
}
_BREAKERS: dict[tuple[str, str], Breaker] = defaultdict(Breaker)


def breaker_of(endpoint: Endpoint) -> Breaker:
    """This process's breaker of the server."""
    return _BREAKERS[endpoint.name, endpoint.url]


def forget_breakers() -> None:
    """Every server may be asked again."""
    _BREAKERS.clear()


@dataclass(frozen=True, slots=True)
class Asked:
    """What one version is asked; see ScoreItem. stand_ins: the versions that will be asked where this one fails. Where
    one of them is on another server, this one's servers do not get their whole time."""

    version: ModelVersion
    prompt: str
    options: tuple[str, ...]
    max_prompt_tokens: int
    stand_ins: tuple[ModelVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """The score, and who gave it; `failures` says of each server that was asked before, or left out, why."""

    score: Score
    endpoint: Endpoint | None = None
    failures: tuple[str, ...] = ()


@dataclass(slots=True)
class _Open:
    """A question on its way through the places of its version."""

    asked: Asked
    places: tuple[Place, ...]
    has_stand_in: bool
    failures: list[str] = field(default_factory=list)
    told: Told | None = None


def score_versions(questions: Sequence[Asked]) -> list[Told]:
    """One answer per question, in order; one that nobody could give has the reasons in its score's error."""
    if not questions:
        return []
    found = find_places(version for one in questions for version in (one.version, *one.stand_ins))
    todo = [_Open(one, found[one.version.id], _is_elsewhere(one, found)) for one in questions]
    for turn in range(max((len(one.places) for one in todo), default=0)):
        groups: dict[tuple[Endpoint, bool], list[_Open]] = defaultdict(list)
        for one in todo:
            if one.told is None and turn < len(one.places):
                last = turn == len(one.places) - 1 and not one.has_stand_in
                groups[one.places[turn].endpoint, last].append(one)
        _ask_all(groups, turn)
    return [one.told or Told(Score(None, _say(one)), None, tuple(one.failures)) for one in todo]


def _is_elsewhere(one: Asked, found: Mapping[uuid.UUID, tuple[Place, ...]]) -> bool:
    """Whether somebody stands in who does not depend on the same servers."""
    own = {place.endpoint for place in found[one.version.id]}
    return any(place.endpoint not in own for version in one.stand_ins for place in found[version.id])


def _say(one: _Open) -> str:
    return " ".join(one.failures) or f"{one.asked.version} is deployed nowhere."


def _ask_all(groups: Mapping[tuple[Endpoint, bool], list[_Open]], turn: int) -> None:
    if len(groups) <= 1:
        for (endpoint, last), todo in groups.items():
            _ask(endpoint, last, todo, turn)
        return
    with ThreadPoolExecutor(max_workers=len(groups)) as pool:  # nothing in it asks the database
        for done in [pool.submit(_ask, *key, todo, turn) for key, todo in groups.items()]:
            done.result()


def _ask(endpoint: Endpoint, last: bool, todo: Sequence[_Open], turn: int) -> None:
    breaker = breaker_of(endpoint)
    if not last and not breaker.allows(time.monotonic()):
        _note(todo, f"{endpoint.name} is not asked: it failed a moment ago.")
        return
    seconds = endpoint.timeout_seconds if last else min(settings.FALLBACK_SECONDS, endpoint.timeout_seconds)
    items = [
        ScoreItem(one.places[turn].model, one.asked.prompt, one.asked.options, one.asked.max_prompt_tokens)
        for one in todo
    ]
    try:
        scores = CLIENTS[endpoint.kind].score(endpoint, items, seconds=seconds)
    except BackendUnavailable as error:
        breaker.failed(time.monotonic(), at_once=isinstance(error, BackendTooSlow))
        _note(todo, error.message)
        return
    except BackendRefused as error:
        breaker.succeeded()
        _note(todo, error.message)
        return
    breaker.succeeded()
    for one, score in zip(todo, scores, strict=True):
        if score.probabilities is not None or score.refused:
            one.told = Told(score, endpoint, tuple(one.failures))
        else:
            one.failures.append(score.error or f"{endpoint.name} did not say why it failed.")


def _note(todo: Sequence[_Open], failure: str) -> None:
    for one in todo:
        one.failures.append(failure)


def ready_version(version: ModelVersion) -> None:
    """Has the servers of the version load it, so that its first decision neither waits nor fails.

    Raises BackendRefused where one answers and cannot serve it, and where it is deployed nowhere; BackendUnavailable
    where none answers.
    """
    places = find_places([version])[version.id]
    if not places:
        raise BackendRefused(f"{version} is deployed nowhere: add a deployment on a backend first.")
    silent: list[BackendUnavailable] = []
    for place in places:
        try:
            CLIENTS[place.endpoint.kind].load(place.endpoint, place.model)
        except BackendUnavailable as error:
            silent.append(error)
    if len(silent) == len(places):
        raise silent[0]
