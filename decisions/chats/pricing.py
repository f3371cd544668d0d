"""What a chat costs: at most, before it is asked, and as far as is known, where it has no whole answer. `answering`
calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec
from django.conf import settings

from decisions.agents.current import CurrentAgent
from decisions.chats.media import estimate_media_tokens
from decisions.chats.requests import Chat
from decisions.chats.written import Written
from decisions.gateway.requests import Answerer
from models_registry.backends.chatting import Attempt
from models_registry.backends.lost_answers import limit_written
from models_registry.backends.token_estimates import Sizes, estimate_tokens
from models_registry.calls.estimates import Question, add_highest_costs, estimate_highest_cost
from workspaces.access.actors import Actor


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one answer; None where they are not known."""

    tokens_in: int | None
    tokens_out: int | None
    estimated: bool = False


def estimate_cost(by: Actor, chat: Chat, attempts: Sequence[Attempt], answerers: Sequence[Answerer]) -> Decimal:
    """Returns the highest cost of the chat at all servers that may be asked: those that fail may count it as well. 0
    where no budget applies."""
    if by.key is None or by.key.spend_a_day is None:
        return Decimal(0)
    return add_highest_costs(
        estimate_highest_cost(
            [Question(attempt.place, _measure_sent(chat, answerer.current), _most_tokens(chat, attempt))]
        )
        for attempt, answerer in zip(attempts, answerers, strict=True)
    )


def estimate_unheard_cost(chat: Chat, current: CurrentAgent, attempt: Attempt, seconds: float) -> Decimal:
    """Returns what a server costs that has had the chat for so long, and of whose answer no word is known: the prompt,
    and as much as it can have written in that time."""
    place = attempt.place
    most = limit_written(place.endpoint, place.model, _most_tokens(chat, attempt), seconds)
    return estimate_highest_cost([Question(place, _measure_sent(chat, current), most)])


def measure(chat: Chat, current: CurrentAgent, written: Written) -> Sizes:
    return replace(_measure_sent(chat, current), received=written.size)


def estimate_counts(attempt: Attempt, sizes: Sizes) -> TokenCounts:
    place = attempt.place
    return TokenCounts(*estimate_tokens(place.endpoint, place.model, sizes), estimated=True)


def _most_tokens(chat: Chat, attempt: Attempt) -> int | None:
    """Returns the limit of the answer's length, the client's or the version's; None without one."""
    body = {**chat.body, **attempt.fields}
    return max((most for name in ("max_tokens", "max_completion_tokens") if (most := body.get(name))), default=None)


def _measure_sent(chat: Chat, current: CurrentAgent) -> Sizes:
    """All that is sent counts: messages and the system prompt, tools, schemas, and whatever else has a structure, such
    as a prediction. Pictures count by their number, other media by their bytes."""
    messages = chat.state["messages"]
    others = [value for name, value in chat.body.items() if name != "messages" and isinstance(value, dict | list)]
    text = len(msgspec.json.encode([current.version.system_prompt, messages, others]))
    media = estimate_media_tokens(messages, picture=settings.PICTURE_TOKENS)
    return Sizes(text, media=min(media, settings.CHAT_BODY_BYTES))  # a client may say that something has any size
