"""What the requests of a call may cost at most, which a key with a budget has to have room for.

Every server that may be asked counts: an answer that cannot be used costs as well, and so does the other arm's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from uuid import UUID

from decisions.gateway.requests import Answerer, RenderedPrompt, RoutedRequest, ScoringPrompt
from models_registry.backends.lost_answers import measure_scoring, measure_writing
from models_registry.backends.openai import MAX_TOKENS
from models_registry.backends.places import Place, find_places
from models_registry.backends.prompts import Prompt
from models_registry.calls.estimates import Question, add_highest_costs, estimate_highest_cost
from models_registry.calls.records import Opening
from models_registry.models import ModelVersion
from workspaces.access.actors import Actor


def openings_of(by: Actor, requests: Sequence[RoutedRequest]) -> list[Opening]:
    """Returns the calls to open, in order of the requests. Only a key with a budget reserves, and looks up servers."""
    if by.key is None or by.key.spend_a_day is None:
        return [Opening(one.id, one.route.version) for one in requests]
    answerers = [_list_answerers(one) for one in requests]
    places = find_places(answerer.version for several in answerers for answerer in several)
    return [
        Opening(one.id, one.route.version, add_highest_costs(_estimate(answerer, places) for answerer in several))
        for one, several in zip(requests, answerers, strict=True)
    ]


def estimate_scoring(version: ModelVersion, prompt: Prompt, options: Sequence[str]) -> Decimal:
    """Returns the highest cost of scoring one prompt at all servers of the version."""
    places = find_places([version])[version.id]
    return add_highest_costs(estimate_highest_cost([one]) for one in _score(places, prompt, options))


def _list_answerers(request: RoutedRequest) -> list[Answerer]:
    """Lists whoever may be asked, each once."""
    found: list[Answerer] = []
    for one in (request.answerer, *request.stand_ins(request.answerer), request.other):
        if one is not None and one.prompt is not None and not any(one.is_as(other) for other in found):
            found.append(one)
    return found


def _estimate(answerer: Answerer, places: Mapping[UUID, tuple[Place, ...]]) -> Decimal:
    assert answerer.prompt is not None
    questions = _ask(places[answerer.version.id], answerer.prompt)
    return add_highest_costs(estimate_highest_cost([one]) for one in questions)


def _ask(places: Sequence[Place], prompt: RenderedPrompt) -> list[Question]:
    if isinstance(prompt, ScoringPrompt):
        return [one for filled in prompt.prompts for one in _score(places, filled, prompt.scored)]
    order = prompt.order
    return [Question(place, measure_writing(order), order.max_tokens) for place in places]


def _score(places: Sequence[Place], prompt: Prompt, options: Sequence[str]) -> list[Question]:
    return [Question(place, measure_scoring(prompt, options), MAX_TOKENS) for place in places]
