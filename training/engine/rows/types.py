"""Rows of the run's data files, one type a kind (training.engine.spec.methods.RowKind). No torch.

Labelled rows hold the right answer; logged rows hold the action, its probability and its reward. Texts and preference
pairs have no options: a language model writes what they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from models_registry.backends.chat_rows import Message, find_chat_faults, find_reply_faults

RIGHT_ABOVE = 0.5
"""A judged decision counts as right above this."""
YES, NO = "yes", "no"
"""Of an item of a ranking: whether it is right for the first place."""
ROUNDING = 1e-3
"""How far probabilities that were written down with few digits may be from adding up to 1."""
LARGEST_PROBABILITY = 1.0 + 1e-6
"""Numbers of 32 bits, and sums of them, are a little above 1."""


class Prompt(NamedTuple):
    """What a model is asked: the user's text, and the system prompt before it, "" where there is none.

    A chat of several turns, or with tools, has `messages`: all of them up to where the reply begins, the system's too,
    and `tools`, those on offer. `text` is then the chat as plain text, for whatever reads no messages, and `system` "".
    """

    text: str
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[Message, ...] = ()


class Slate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which ranking an item was shown in: `id` is the decision's. `place` counts from 1 as the items were ranked, null
    for one that was shown and not ranked; `propensity` = P(the whole ranking | prompt), and `first` = P(this item in
    the first place | prompt), null where they are not known."""

    id: str
    item: str
    place: int | None = None
    propensity: float | None = None
    first: float | None = None

    def faults(self, options: Sequence[str]) -> Iterator[str]:
        if set(options) != {YES, NO}:
            yield f"options: for an item of a ranking they must be {YES} and {NO}"
        for name, value in (("propensity", self.propensity), ("first", self.first)):
            if value is not None and not 0.0 < value <= LARGEST_PROBABILITY:
                yield f"slate.{name}: {value} must be above 0, up to 1"


class Labelled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt whose right option is known. `group` names the cluster it belongs to, for honest intervals. `system`, of
    every kind of row: the system prompt before the prompt.

    Rows that people's labels made say where they come from: `source` is label, human or suggestion, `label_id` the
    label's, `verdict` what was said; a suggestion has the auto-labeler's `confidence`, and as `classifier` when that
    was trained. `completion` repeats the answer, for other trainers. No method of ours reads these.

    `slate` as of logged rows: an item of a ranking, which is relevant where the answer is yes.
    """

    id: str
    prompt: str
    options: tuple[str, ...]
    answer: str
    group: str | None = None
    completion: str | None = None
    source: str | None = None
    label_id: str | None = None
    verdict: str | None = None
    confidence: float | None = None
    classifier: str | None = None
    slate: Slate | None = None
    system: str | None = None

    def faults(self) -> Iterator[str]:
        yield from _option_faults(self.options)
        if self.answer not in self.options:
            yield f"answer: {self.answer!r} is not among the options"
        if self.slate is not None:
            yield from self.slate.faults(self.options)


class Logged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision that was taken. `propensity` = P(action | prompt) then, null where an outside policy did not tell it;
    `reward` in [0, 1], null while unknown.

    `right` in [0, 1]: what is known of whether the action was right, where the reward spec declares what says so. `raw`
    is the reward before it was mapped to [0, 1]; no method of ours reads it.

    `probabilities`, one per option: what the model that decided thought of each, before temperature and ε. It had not
    seen this row, which makes them the best first guess of what was right.

    `slate`: the row asks whether one item of a ranking is right for the first place (training.engine.rows.slates).

    `next_state` is what the agent knew afterwards, and `done` whether no decision of its episode came later; null where
    nobody told. `synthetic`: nobody took this decision, it is a wrong one made up. No method of ours reads these.
    """

    id: str
    prompt: str
    options: tuple[str, ...]
    action: str
    propensity: float | None = None
    reward: float | None = None
    group: str | None = None
    probabilities: tuple[float, ...] | None = None
    right: float | None = None
    raw: float | None = None
    slate: Slate | None = None
    next_state: dict[str, Any] | None = None
    done: bool | None = None
    synthetic: bool = False
    system: str | None = None

    def faults(self) -> Iterator[str]:
        yield from _option_faults(self.options)
        if self.action not in self.options:
            yield f"action: {self.action!r} is not among the options"
        if self.propensity is not None and not 0.0 < self.propensity <= LARGEST_PROBABILITY:
            yield f"propensity: {self.propensity} must be above 0, up to 1"
        yield from _value_faults(self.reward, self.right)
        if self.probabilities is not None:
            yield from _probability_faults(self.probabilities, len(self.options))
        if self.slate is not None:
            yield from self.slate.faults(self.options)

    @property
    def has_any_propensity(self) -> bool:
        """Whether the probability of its action is known, or something of that of the ranking that it is of."""
        of_list = self.slate is not None and (self.slate.propensity is not None or self.slate.first is not None)
        return self.propensity is not None or of_list


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model wrote, or should have written. `reward` in [0, 1], null while unknown; `right`, `next_state`, `done`
    and `synthetic` as of logged rows; where it comes from, as of labelled rows.

    `log_p` is the log-probability of the whole completion under the model that wrote it, null where it is not known.

    A row of a chat of several turns, or with tools, has `messages` and `tools` (models_registry.backends.chat_rows);
    `prompt` is the same as text, and `system` null. `reply`, the assistant's message, is there where it is more than
    its words, that is where it calls tools; `completion` is the reply as text, which graders and comparisons read.
    """

    id: str
    prompt: str
    completion: str
    reward: float | None = None
    group: str | None = None
    right: float | None = None
    raw: float | None = None
    log_p: float | None = None
    source: str | None = None
    label_id: str | None = None
    verdict: str | None = None
    confidence: float | None = None
    classifier: str | None = None
    next_state: dict[str, Any] | None = None
    done: bool | None = None
    synthetic: bool = False
    system: str | None = None
    messages: tuple[Message, ...] | None = None
    tools: tuple[Message, ...] | None = None
    reply: Message | None = None

    def faults(self) -> Iterator[str]:
        if not self.completion:
            yield "completion: is empty"
        yield from _chat_faults(self)
        if self.reply is not None:
            yield from find_reply_faults("reply", self.reply)
        yield from _value_faults(self.reward, self.right)
        if self.log_p is not None and not self.log_p <= 0.0:
            yield f"log_p: {self.log_p} must be at most 0"


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For one prompt, an action that is better than another; both as text. `synthetic`: the worse one was made up.
    `messages`, `tools` and the replies are as of texts, the rest as of labelled rows."""

    id: str
    prompt: str
    chosen: str
    rejected: str
    group: str | None = None
    source: str | None = None
    label_id: str | None = None
    verdict: str | None = None
    confidence: float | None = None
    classifier: str | None = None
    synthetic: bool = False
    system: str | None = None
    messages: tuple[Message, ...] | None = None
    tools: tuple[Message, ...] | None = None
    chosen_reply: Message | None = None
    rejected_reply: Message | None = None

    def faults(self) -> Iterator[str]:
        if self.chosen == self.rejected:
            yield "rejected: is the same as the chosen text"
        yield from _chat_faults(self)
        for name, reply in (("chosen_reply", self.chosen_reply), ("rejected_reply", self.rejected_reply)):
            if reply is not None:
                yield from find_reply_faults(name, reply)


class Asking(Protocol):
    """A row of any kind, as far as what is asked."""

    @property
    def prompt(self) -> str: ...
    @property
    def system(self) -> str | None: ...


def prompts_of(rows: Iterable[Asking]) -> list[Prompt]:
    """What a model is asked by each row."""
    return [prompt_of(row) for row in rows]


def prompt_of(row: Asking) -> Prompt:
    """What a model is asked by it."""
    if isinstance(row, Text | Preference) and row.messages:
        return Prompt(row.prompt, "", row.messages, row.tools or ())
    return Prompt(row.prompt, row.system or "")


def reply_of(completion: str, reply: Message | None) -> str | Message:
    """The assistant's message, or its words alone where it is no more than they."""
    return reply if reply is not None else completion


def replies_of(row: Preference) -> tuple[str | Message, str | Message]:
    """The better and the worse, each as `reply_of` has it."""
    return reply_of(row.chosen, row.chosen_reply), reply_of(row.rejected, row.rejected_reply)


def better_text(row: Preference) -> Text:
    """The pair's better text alone."""
    return Text(
        row.id,
        row.prompt,
        row.chosen,
        system=row.system,
        messages=row.messages,
        tools=row.tools,
        reply=row.chosen_reply,
    )


def as_decision(row: Labelled) -> Logged:
    """A replayed row: a decision for its answer, taken for certain, that was right."""
    return Logged(row.id, row.prompt, row.options, row.answer, 1.0, 1.0, row.group, right=1.0, system=row.system)


def right_or_wrong(logged: Sequence[Logged]) -> list[tuple[Logged, float]]:
    """The rows that say whether their action was right, each with how right, in [0, 1]. Where no row declares it, the
    reward says so."""
    declared = any(row.right is not None for row in logged)
    told = ((row, row.right if declared else row.reward) for row in logged)
    return [(row, right) for row, right in told if right is not None]


def find_judged(logged: Sequence[Logged]) -> list[Logged]:
    """Without the decisions that nobody judged. Of a ranking only the first item says something."""
    told = {row.slate.id if row.slate else row.id for row in logged if row.reward is not None or row.right is not None}
    return [row for row in logged if (row.slate.id if row.slate else row.id) in told]


def find_answers(logged: Sequence[Logged]) -> tuple[list[Labelled], int]:
    """What decisions of any policy say of the right option, as rows to measure on, and how many were wrong and do
    not name it. A right decision names it; a wrong one of two options means the other. Decisions
    that nobody judged are no part of either."""
    found, open_ = [], 0
    for row, right in right_or_wrong(logged):
        others = [option for option in row.options if option != row.action]
        if right <= RIGHT_ABOVE and len(others) != 1:
            open_ += 1
            continue
        answer = row.action if right > RIGHT_ABOVE else others[0]
        found.append(Labelled(row.id, row.prompt, row.options, answer, row.group, system=row.system))
    return found, open_


def normalise_prompt(
    prompt: str,
    system: str | None = None,
    messages: Sequence[Message] | None = None,
    tools: Sequence[Message] | None = None,
) -> str:
    """Prompts that differ only in case and white space are the same question, under the same system prompt. Chats of
    several turns, or with tools, are the same where all of their messages and tools are."""
    if messages:
        return msgspec.json.encode([messages, tools or ()], order="sorted").decode()
    text = " ".join(prompt.casefold().split())
    return f"{system}\n\n{text}" if system else text


Rewarded = TypeVar("Rewarded", Logged, Text)


def groups_of_prompts(rows: Iterable[Rewarded]) -> list[list[Rewarded]]:
    """Rewarded rows of the same prompt. Only groups whose rewards differ: the others prefer nothing."""
    groups: dict[str, list[Rewarded]] = {}
    for row in rows:
        if row.reward is not None:
            prompt = prompt_of(row)
            name = normalise_prompt(prompt.text, prompt.system, prompt.messages, prompt.tools)
            groups.setdefault(name, []).append(row)
    return [group for group in groups.values() if len({row.reward for row in group}) > 1]


class Row(Asking, Protocol):
    """What scoring needs of a row."""

    @property
    def options(self) -> tuple[str, ...]: ...


def _chat_faults(row: Text | Preference) -> Iterator[str]:
    if row.messages is not None:
        yield from find_chat_faults(row.messages, row.tools or ())
        if row.system:
            yield "system: is given with messages, of which it is the first"
    elif row.tools is not None:
        yield "tools: belong to messages, which are missing"


def _value_faults(reward: float | None, right: float | None) -> Iterator[str]:
    for name, value in (("reward", reward), ("right", right)):
        if value is not None and not 0.0 <= value <= 1.0:
            yield f"{name}: {value} must be from 0 to 1"


def _probability_faults(probabilities: Sequence[float], options: int) -> Iterator[str]:
    if len(probabilities) != options:
        yield f"probabilities: {len(probabilities)} are given for {options} options"
    elif (
        not all(0.0 <= p <= LARGEST_PROBABILITY for p in probabilities)
        or abs(math.fsum(probabilities) - 1.0) > ROUNDING
    ):
        yield "probabilities: must lie in [0, 1] and add up to 1"


def _option_faults(options: tuple[str, ...]) -> Iterator[str]:
    if not options:
        yield "options: at least one is needed"
    if len(set(options)) < len(options):
        yield "options: the same option twice"
    if any(not option for option in options):
        yield "options: an option is empty"
