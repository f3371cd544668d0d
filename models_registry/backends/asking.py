"""Asks the servers of versions for scores and for answers, and the next one where one fails: the gateway's way to
models.

A server that stands first and does not answer costs at most `settings.FALLBACK_SECONDS` where another can answer in its
place, and after that nothing for a while: its breaker is open. The last one gets the time that its row says. Writing
takes longer than that, so such a server is first asked whether it is there, and then gets its whole time.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Generic, TypeVar

from django.conf import settings

from models_registry.backends.breaker import Breaker
from models_registry.backends.endpoint import Client, Endpoint, Score, ScoreItem, WriteItem, Written
from models_registry.backends.lost_answers import measure_scoring, measure_writing, price_lost
from models_registry.backends.model_server import ModelServerClient
from models_registry.backends.openai import MAX_TOKENS, OpenAIClient
from models_registry.backends.places import Place, find_places
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendRefused, BackendTooSlow, BackendUnavailable
from models_registry.models import BackendKind, ModelVersion

CLIENTS: Mapping[str, Client] = {
    BackendKind.MODEL_SERVER: ModelServerClient(),
    BackendKind.OPENAI: OpenAIClient(),
    BackendKind.VLLM: OpenAIClient(),
}
_BREAKERS: dict[tuple[uuid.UUID | None, str, str], Breaker] = defaultdict(Breaker)


def breaker_of(endpoint: Endpoint) -> Breaker:
    """This process's breaker of the backend: one of another workspace at the same address may have a wrong key."""
    return _BREAKERS[endpoint.backend, endpoint.name, endpoint.url]


def forget_breakers() -> None:
    """Every server may be asked again."""
    _BREAKERS.clear()


@dataclass(frozen=True, slots=True)
class Asked:
    """What one version is asked; see ScoreItem. stand_ins: the versions that will be asked where this one fails. Where
    one of them is on another server, this one's servers do not get their whole time."""

    version: ModelVersion
    prompt: Prompt
    options: tuple[str, ...]
    max_prompt_tokens: int
    stand_ins: tuple[ModelVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """The score, and who gave it; `failures` says of each server that was asked before, or left out, why. `last`: the
    server that was asked last; None where none was. `wasted`: what answers cost that could not be used, and those
    that did not come, estimated."""

    score: Score
    endpoint: Endpoint | None = None
    failures: tuple[str, ...] = ()
    last: Endpoint | None = None
    wasted: Decimal = Decimal(0)

    @property
    def cost(self) -> Decimal | None:
        """The cost of everything that servers answered; None where it is unknown, or nothing was answered."""
        if self.endpoint is None:
            return self.wasted or None
        price = self.endpoint.price(self.score.tokens_in, self.score.tokens_out)
        return None if price is None else price + self.wasted


class UnusableAnswer(Exception):
    """What a server wrote is not what was asked for; its text says why. Another server or version is asked."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What one version is to write; see WriteItem, whose `model` is each server's own name of it. read: makes an action
    of an answer, or raises UnusableAnswer. stand_ins: as of Asked."""

    version: ModelVersion
    item: WriteItem
    read: Callable[[Written], Any]
    stand_ins: tuple[ModelVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was written, the action that it is, and who wrote it; `failures`, `last` and `wasted` as of Told; so many
    failures were answers that are `unusable`."""

    written: Written
    action: Any = None
    endpoint: Endpoint | None = None
    failures: tuple[str, ...] = ()
    unusable: int = 0
    last: Endpoint | None = None
    wasted: Decimal = Decimal(0)


Q = TypeVar("Q", bound=Asked | Ordered)
A = TypeVar("A", bound=Told | Delivered)


@dataclass(slots=True)
class _Open(Generic[Q, A]):
    """A question on its way through the places of its version."""

    asked: Q
    places: tuple[Place, ...]
    has_stand_in: bool
    failures: list[str] = field(default_factory=list)
    unusable: int = 0
    last: Endpoint | None = None
    wasted: Decimal = Decimal(0)
    told: A | None = None

    def say(self) -> str:
        return " ".join(self.failures) or f"{self.asked.version} is deployed nowhere."

    def waste(self, endpoint: Endpoint, model: str, answer: Score | Written) -> None:
        """Notes the cost of an answer that cannot be used."""
        self.wasted += endpoint.price(answer.tokens_in, answer.tokens_out) or 0
        self.lose(endpoint, model, answer.held)

    def lose(self, endpoint: Endpoint, model: str, held: float | None) -> None:
        """Notes the cost of an answer that did not come. `held`: as of BackendUnavailable."""
        if held is None:
            return
        if isinstance(self.asked, Ordered):
            sent, most = measure_writing(self.asked.item), self.asked.item.max_tokens
        else:
            sent, most = measure_scoring(self.asked.prompt, self.asked.options), MAX_TOKENS
        self.wasted += price_lost(endpoint, model, sent, most, held)


Send = Callable[[Endpoint, bool, Sequence[tuple[_Open[Q, A], str]]], None]
"""Asks one server, which is the last for these questions or is not; each comes with its model's name there. Notes
answers and failures in them. Raises BackendUnavailable or BackendRefused where nothing was answered."""


def score_versions(questions: Sequence[Asked]) -> list[Told]:
    """One answer per question, in order; one that nobody could give has the reasons in its score's error."""
    todo: list[_Open[Asked, Told]] = _ask_in_turn(questions, _score)
    return [one.told or Told(Score(None, one.say()), None, tuple(one.failures), one.last, one.wasted) for one in todo]


def write_versions(orders: Sequence[Ordered]) -> list[Delivered]:
    """As `score_versions`: an answer that cannot be used counts as a failure of the server that wrote it."""
    todo: list[_Open[Ordered, Delivered]] = _ask_in_turn(orders, _write)
    return [
        one.told
        or Delivered(
            Written(None, one.say()),
            failures=tuple(one.failures),
            unusable=one.unusable,
            last=one.last,
            wasted=one.wasted,
        )
        for one in todo
    ]


def _ask_in_turn(questions: Sequence[Q], send: Send[Q, A]) -> list[_Open[Q, A]]:
    if not questions:
        return []
    found = find_places(version for one in questions for version in (one.version, *one.stand_ins))
    todo: list[_Open[Q, A]] = [_Open(one, found[one.version.id], _is_elsewhere(one, found)) for one in questions]
    for turn in range(max((len(one.places) for one in todo), default=0)):
        groups: dict[tuple[Endpoint, bool], list[tuple[_Open[Q, A], str]]] = defaultdict(list)
        for one in todo:
            if one.told is None and turn < len(one.places):
                place = one.places[turn]
                last = turn == len(one.places) - 1 and not one.has_stand_in
                groups[place.endpoint, last].append((one, place.model))
        _ask_all(groups, send)
    return todo


def _is_elsewhere(one: Asked | Ordered, found: Mapping[uuid.UUID, tuple[Place, ...]]) -> bool:
    """Whether somebody stands in who does not depend on the same servers."""
    own = {place.endpoint for place in found[one.version.id]}
    return any(place.endpoint not in own for version in one.stand_ins for place in found[version.id])


def _ask_all(groups: Mapping[tuple[Endpoint, bool], Sequence[tuple[_Open[Q, A], str]]], send: Send[Q, A]) -> None:
    if len(groups) <= 1:
        for (endpoint, last), todo in groups.items():
            _ask(endpoint, last, todo, send)
        return
    with ThreadPoolExecutor(max_workers=len(groups)) as pool:  # nothing in it asks the database
        asked = [pool.submit(_ask, endpoint, last, todo, send) for (endpoint, last), todo in groups.items()]
        for done in asked:
            done.result()


def _ask(endpoint: Endpoint, last: bool, todo: Sequence[tuple[_Open[Q, A], str]], send: Send[Q, A]) -> None:
    breaker = breaker_of(endpoint)
    failure = ""
    if not last and not breaker.allows(time.monotonic()):
        failure = f"{endpoint.name} is not asked: it failed a moment ago."
    else:
        for one, _ in todo:
            one.last = endpoint
        try:
            send(endpoint, last, todo)
        except BackendUnavailable as error:
            breaker.failed(time.monotonic(), at_once=isinstance(error, BackendTooSlow))
            failure = error.message
            for one, model in todo:
                one.lose(endpoint, model, error.held)
        except BackendRefused as error:
            breaker.succeeded()
            failure = error.message
        else:
            breaker.succeeded()
    if failure:
        for one, _ in todo:
            one.failures.append(failure)


def _score(endpoint: Endpoint, last: bool, todo: Sequence[tuple[_Open[Asked, Told], str]]) -> None:
    seconds = endpoint.timeout_seconds if last else _short(endpoint)
    items = [ScoreItem(model, one.asked.prompt, one.asked.options, one.asked.max_prompt_tokens) for one, model in todo]
    scores = CLIENTS[endpoint.kind].score(endpoint, items, seconds=seconds)
    for (one, model), score in zip(todo, scores, strict=True):
        if score.probabilities is not None or score.refused:
            one.told = Told(score, endpoint, tuple(one.failures), wasted=one.wasted)
        else:
            one.waste(endpoint, model, score)
            one.failures.append(score.error or f"{endpoint.name} did not say why it failed.")


def _write(endpoint: Endpoint, last: bool, todo: Sequence[tuple[_Open[Ordered, Delivered], str]]) -> None:
    client = CLIENTS[endpoint.kind]
    if not last:
        try:
            client.check(endpoint, seconds=_short(endpoint))
        except BackendUnavailable as error:
            raise BackendTooSlow(error.message) from error
    items = [replace(one.asked.item, model=model) for one, model in todo]
    texts = client.write(endpoint, items, seconds=endpoint.timeout_seconds)
    for (one, model), written in zip(todo, texts, strict=True):
        if written.text is None:
            one.waste(endpoint, model, written)
            one.failures.append(written.error or f"{endpoint.name} did not say why it failed.")
            continue
        try:
            action = one.asked.read(written)
        except UnusableAnswer as reason:
            one.failures.append(f"The answer of {endpoint.name} cannot be used: {reason}.")
            one.unusable += 1
            one.waste(endpoint, model, written)
        else:
            one.told = Delivered(written, action, endpoint, tuple(one.failures), one.unusable, wasted=one.wasted)


def _short(endpoint: Endpoint) -> float:
    """Seconds for a server in whose place another can answer."""
    return min(settings.FALLBACK_SECONDS, endpoint.timeout_seconds)


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
