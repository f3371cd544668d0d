"""What an episode's calls were, as tokens: nothing that the model wrote is ever tokenised again.

A transcript is a conversation without a break. A call that goes on with it, by sending all of its messages and more,
has the transcript's own tokens as the beginning of its prompt, and only what is new is encoded. A call that does not
begins another transcript, which says why. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from training.engine.environments.episodes import Episode
from training.engine.serving.tools import Tool

Message = Mapping[str, Any]
FIRST = "the first call"


class Transcript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`token_ids` (T,) and `log_p` (T,): of each token that the model wrote its log-probability when it was drawn, at
    the temperature of drawing; None of what the model read. `began`: why it continues no other. `calls`: answers in it.
    `weights_hash` is that of the weights that wrote it."""

    token_ids: tuple[int, ...]
    log_p: tuple[float | None, ...]
    weights_hash: str
    began: str
    calls: int

    @property
    def written(self) -> int:
        """Tokens of the model's own."""
        return sum(value is not None for value in self.log_p)


class Answered(NamedTuple):
    """A call of a transcript: the tokens before its answer, in whole, those written, and their log-probabilities."""

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_p: tuple[float, ...]


def split_calls(transcript: Transcript) -> list[Answered]:
    """The transcript's calls, in their order."""
    calls, place = list[Answered](), 0
    for wrote, run in groupby(transcript.log_p, key=lambda value: value is not None):
        values = list(run)
        if wrote:
            ids = transcript.token_ids[place : place + len(values)]
            log_p = tuple(value for value in values if value is not None)
            calls.append(Answered(transcript.token_ids[:place], ids, log_p))
        place += len(values)
    return calls


class ServedEpisode(Episode, frozen=True, forbid_unknown_fields=True):
    """An episode of an outside agent; each of its steps is a call, and `total_reward` a share of the most."""

    transcripts: tuple[Transcript, ...] = ()

    @property
    def reward_share(self) -> float:
        return self.total_reward

    @property
    def graded_by_step(self) -> bool:
        return False


@dataclass(slots=True, eq=False)
class Growing:
    """A transcript that may go on. `messages` end with the model's newest answer."""

    began: str
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...] = ()
    token_ids: list[int] = field(default_factory=list)
    log_p: list[float | None] = field(default_factory=list)
    calls: int = 0

    def add(self, messages: Sequence[Message], answer: Message, prompt_ids: Sequence[int], written: Written) -> None:
        """`prompt_ids` begin with `token_ids`."""
        self.log_p += [None] * (len(prompt_ids) - len(self.token_ids)) + list(written.log_p)
        self.token_ids = [*prompt_ids, *written.tokens]
        self.messages = (*messages, answer)
        self.calls += 1

    def shared(self, messages: Sequence[Message]) -> int:
        """How many messages both begin with."""
        count = 0
        for mine, yours in zip(self.messages, messages, strict=False):
            if not is_same(mine, yours):
                break
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class Written:
    """The tokens of an answer, an end of sequence included, each with its log-probability when it was drawn."""

    tokens: Sequence[int]
    log_p: Sequence[float]


def is_same(one: Message, other: Message) -> bool:
    """Whether two messages say the same. White space around an answer does not matter, as agents strip it; nor do the
    ids of calls, and how their arguments are laid out."""
    if one["role"] != other["role"] or _calls(one) != _calls(other):
        return False
    if one["role"] == "assistant":
        return bool(one["content"].strip() == other["content"].strip())
    return bool(one["content"] == other["content"])


def _calls(message: Message) -> list[tuple[str, Any]]:
    calls = message.get("tool_calls") or ()
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def find_earlier(known: Sequence[Growing], messages: Sequence[Message], tools: tuple[Tool, ...]) -> Growing | str:
    """The transcript that the messages go on with; else why there is none."""
    if not known:
        return FIRST
    best = max(known, key=lambda one: one.shared(messages))
    shared = best.shared(messages)
    if shared < len(best.messages):
        if shared == len(messages):
            return "an earlier call is asked again"
        return f"message {shared + 1} is not what was said before"
    if shared == len(messages):
        return "nothing follows the model's answer"
    return best if best.tools == tools else "other tools are offered"
