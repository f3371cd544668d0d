"""What a labelling queue shows of a decision or an episode, and what its form says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from decisions.models import Episode, Label, LabelQueue, QueueSubject
from decisions.pages import cards
from decisions.pages.episodes import get_episode
from decisions.queries.decision_shown import SaidLabel, ShownDecision
from decisions.queries.episode_shown import ShownEpisode, tell_episodes
from decisions.queries.suggestion_shown import ShownSuggestion, find_only_decisions, find_suggestions
from workspaces.pages.guard import PageRequest

MOST_LINES = 200
"""Steps and decisions of an episode on its card; its own page shows more."""


@dataclass(frozen=True, slots=True)
class Cards:
    """template: of one card, which is called `shown`. ahead: how many the page holds. make: in the order of the ids.
    read: verdict, corrected action and note of a card's form; raises Http404, InvalidInput, Erased, Editing. say: a
    reviewer's label as the card shows it to an adjudicator."""

    template: str
    ahead: int
    make: Callable[[PageRequest, Iterable[uuid.UUID]], Sequence[Any]]
    read: Callable[[PageRequest, uuid.UUID], dict[str, Any]]
    say: Callable[[Any, Label], Any]


def _read_decision(request: PageRequest, pk: uuid.UUID) -> dict[str, Any]:
    return cards.read_label(request, cards.get_decision(request, pk))


def _say_of_decision(shown: ShownDecision, label: Label) -> SaidLabel:
    return SaidLabel(shown.decision, label)


def _tell_episodes(request: PageRequest, ids: Iterable[uuid.UUID]) -> list[ShownEpisode]:
    wanted = list(ids)
    found = Episode.objects.for_workspace(request.workspace).select_related("agent").in_bulk(wanted)
    told = tell_episodes([found[pk] for pk in wanted if pk in found], most=MOST_LINES)
    return [replace(shown, suggestion=suggestion) for shown, suggestion in zip(told, _suggest(told), strict=True)]


def _suggest(told: Sequence[ShownEpisode]) -> list[ShownSuggestion | None]:
    """For each episode, what is suggested of it; of one with a single decision, what is suggested of that."""
    ids = [shown.episode.id for shown in told]
    of_episode = find_suggestions("episode", ids)
    only = find_only_decisions(ids)
    of_decision = find_suggestions("decision", only.values())
    return [of_episode.get(pk) or of_decision.get(only.get(pk, pk)) for pk in ids]


def _read_episode(request: PageRequest, pk: uuid.UUID) -> dict[str, Any]:
    get_episode(request, pk)
    return {"verdict": request.POST.get("verdict", ""), "corrected_action": None, "note": cards.read_note(request)}


def _say_of_episode(shown: ShownEpisode, label: Label) -> Label:
    return label


_CARDS: Mapping[str, Cards] = {
    QueueSubject.DECISION.value: Cards(
        "decisions/_card.html", cards.AHEAD, cards.make_cards, _read_decision, _say_of_decision
    ),
    QueueSubject.EPISODE.value: Cards("episodes/_card.html", 2, _tell_episodes, _read_episode, _say_of_episode),
}


def cards_of(queue: LabelQueue) -> Cards:
    return _CARDS[queue.subject]
