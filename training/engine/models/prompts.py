"""Prompts and replies → token ids: the chat as the template writes it, and the cut of what is too long.

Training, evaluation and serving encode by this one class, so that a model decides on what it has learnt from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.backends.prompt_cut import cut_middle, find_gap, find_room_fault
from training.engine.models.chats import ChatTemplate, Message
from training.engine.rows.types import Asking, Prompt, Text, prompts_of, reply_of

LONGEST = 4096
"""Tokens of a completion, at most, where the spec does not say."""
LEAST_PROMPT, MOST_PROMPT = 4, 131_072
"""Tokens of a prompt that a spec may ask for."""
MARGIN = 16
"""Tokens by which a chat that is rendered again may be longer."""
SYSTEMS_KEPT = 256
NO_SYSTEM_ROLE = (
    "the chat template has no system role: the system prompt precedes the user's turn, with an empty line between them"
)


def find_positions(config: Any) -> int:
    """Tokens that a model with this config reads at most."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or LONGEST)


def find_room(tokenizer: Any, config: Any, max_prompt_tokens: int, rows: Sequence[Text]) -> int:
    """Tokens for the longest reply of the rows and its end, at least 1; no more than the positions of a model with this
    config leave beside the longest of their prompts, which may be far shorter than an agent allows. Chats that have no
    place in the model at all do not count."""
    encoder = PromptEncoder(tokenizer, max_prompt_tokens)
    positions = find_positions(config)
    prompts, replies = encoder.encode_rows(rows)
    sizes = [(len(prompt), len(reply)) for prompt, reply in zip(prompts, replies, strict=True)]
    fitting = [
        size for size, row in zip(sizes, rows, strict=True) if row.messages is None or sum(size) <= positions
    ] or sizes
    longest = max(prompt for prompt, _ in fitting)
    return min(max(1, min(LONGEST, positions - longest)), max(reply for _, reply in fitting))


def find_prompt_room(tokenizer: Any, config: Any, max_completion_tokens: int | None, rows: Sequence[Asking]) -> int:
    """Tokens for the longest prompt of the rows with its system prompt; no more than the positions of a model with this
    config leave beside the template and the answer, for which a quarter of them stays where it has no limit."""
    texts = tokenizer([f"{row.system or ''}\n{row.prompt}" for row in rows], add_special_tokens=False)["input_ids"]
    asked = list(map(len, texts))
    whole = map(len, PromptEncoder(tokenizer, MOST_PROMPT).encode(prompts_of(rows)))
    template = max(0, *(both - own for both, own in zip(whole, asked, strict=True)))
    positions = int(getattr(config.get_text_config(), "max_position_embeddings", None) or MOST_PROMPT)
    answer = max_completion_tokens or positions // 4
    return max(LEAST_PROMPT, min(MARGIN + max(asked), positions - template - MARGIN - answer, MOST_PROMPT))


class SystemPromptTooLong(ValueError):
    """It leaves no tokens for what is asked."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a system prompt takes. `room`: tokens that it leaves for the text, where `gap` marks a cut; `head`: how many
    tokens of an encoded prompt stand before the text, the template's too."""

    room: int
    gap: str
    gap_tokens: int
    head: int


class PromptEncoder:
    """Prompts and replies → token ids, the same in training, evaluation and serving.

    A prompt is a text, one with a system prompt, or a chat with tools. Of each of the user's texts the middle is left
    out where it has, together with the system prompt, more than `max_prompt_tokens` tokens: what a template asks stands
    at its beginning or its end, and a system prompt is read whole. The whole is then written by the tokenizer's chat
    template, up to where the answer begins. A control token spelled out in any of it is broken up: a prompt cannot end
    its own turn.

    Encoding and cutting raise SystemPromptTooLong and TemplateRefuses.
    """

    def __init__(self, tokenizer: Any, max_prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.template = ChatTemplate(tokenizer)
        self.max_prompt_tokens = max_prompt_tokens
        self._systems: dict[str, _Before] = {}
        self._plain = self._read_system("")
        self.head = self._plain.head
        probes = self._probe(Prompt(""))
        self.tail = _shared(probes[0][::-1], probes[1][::-1])

    @property
    def knows_system(self) -> bool:
        """Whether the template has a role for system prompts; else they stand in front of the user's text."""
        return self.template.knows_system

    def encode(self, prompts: Sequence[str | Prompt]) -> list[list[int]]:
        """Prompts → token ids up to where the answer begins, one list a prompt."""
        return self.tokenise(self.render(prompts))

    def render(self, prompts: Sequence[str | Prompt]) -> list[str]:
        """What `encode` encodes, as text."""
        asked = [as_prompt(prompt) for prompt in prompts]
        return [self.template.render(chat, prompt.tools) for chat, prompt in zip(self.chats(asked), asked, strict=True)]

    def encode_replies(self, prompts: Sequence[str | Prompt], replies: Sequence[str | Message]) -> list[list[int]]:
        """The assistant's messages, or their words alone, behind the prompts → token ids as the template writes them,
        up to the end of the turn. `encode` and this follow each other in training, scoring and exports. A model that
        wrote them was asked by `encode` alone, so a text that would join the prompt's last token does not."""
        asked = [as_prompt(prompt) for prompt in prompts]
        chats = zip(self.chats(asked), asked, replies, strict=True)
        written = [self.template.render_reply(chat, prompt.tools, as_message(reply)) for chat, prompt, reply in chats]
        whole = self.tokenise([prompt + said for said, prompt in written])
        begins = self.tokenise([prompt for _, prompt in written])
        found = []
        for (said, prompt), ids, begin in zip(written, whole, begins, strict=True):
            alone = ids[: len(begin)] != begin
            ended = self.template.end_reply(self.tokenise([said])[0] if alone else ids[len(begin) :])
            if ended is None:
                body = self.template.without_ending(said)
                (ids,) = self.tokenise([body if alone else prompt + body])
                ended = [*(ids if alone else ids[len(begin) :]), self.template.end]
            found.append(ended)
        return found

    def encode_rows(self, rows: Sequence[Text]) -> tuple[list[list[int]], list[list[int]]]:
        """What each row asks, and its reply."""
        prompts = prompts_of(rows)
        return self.encode(prompts), self.encode_replies(prompts, [reply_of(row.completion, row.reply) for row in rows])

    def tokenise(self, rendered: Sequence[str]) -> list[list[int]]:
        """Token ids of what the template has written."""
        if not rendered:
            return []
        ids: list[list[int]] = self.tokenizer(list(rendered), add_special_tokens=False)["input_ids"]
        return ids

    def chats(self, prompts: Sequence[str | Prompt]) -> list[list[Message]]:
        """The messages of each prompt, with the middle of the user's texts left out where they are too long."""
        chats = [messages_of(as_prompt(prompt)) for prompt in prompts]
        texts = [(system_of(chat), message["content"]) for chat in chats for message in chat if _is_asked(message)]
        cut = iter(self._cut_all(texts))
        return [
            [{**message, "content": next(cut)} if _is_asked(message) else message for message in chat] for chat in chats
        ]

    def cut(self, prompts: Sequence[str | Prompt]) -> list[str]:
        """What the user says last in each of `chats`."""
        return [next(one["content"] for one in reversed(chat) if _is_asked(one)) for chat in self.chats(prompts)]

    def count_cut(self, prompts: Sequence[str | Prompt]) -> int:
        """How many of them `encode` cuts."""
        asked = [as_prompt(prompt) for prompt in prompts]
        whole = [[self.harmless(one["content"]) for one in messages_of(prompt) if _is_asked(one)] for prompt in asked]
        read = [[one["content"] for one in chat if _is_asked(one)] for chat in self.chats(asked)]
        return sum(one != other for one, other in zip(whole, read, strict=True))

    def content(self, prompt_ids: Sequence[int], system: str = "") -> Sequence[int]:
        """The tokens of the prompt's own text, without the template's and the system prompt's."""
        return prompt_ids[self._before(system).head : len(prompt_ids) - self.tail]

    def heads(self, prompts: Iterable[str | Prompt]) -> list[int]:
        """Counts, for each prompt, the tokens before its own text when it is encoded; of a chat, before what the user
        says last."""
        return [
            _shared(*self._probe(Prompt("", messages=tuple(map(dict, self.chats([prompt])[0])), tools=prompt.tools)))
            if prompt.messages
            else self._before(prompt.system).head
            for prompt in map(as_prompt, prompts)
        ]

    def find_faults(self, prompts: Iterable[str | Prompt]) -> list[str]:
        """What is wrong with each system prompt that leaves no room for what is asked."""
        faults = []
        for system in dict.fromkeys(system_of(messages_of(as_prompt(prompt))) for prompt in prompts):
            try:
                self._before(system)
            except SystemPromptTooLong as error:
                faults.append(str(error))
        return faults

    def harmless(self, text: str) -> str:
        """The text with control tokens that it spells out broken up."""
        return self.template.harmless(text)

    def _probe(self, prompt: Prompt) -> list[list[int]]:
        """Two prompts whose texts share nothing: what the encoded ones share is not theirs."""
        chat = messages_of(prompt)
        place = max((at for at, message in enumerate(chat) if _is_asked(message)), default=len(chat) - 1)
        chats = [[*chat[:place], {**chat[place], "content": text}, *chat[place + 1 :]] for text in ("a", "0 b")]
        return self.tokenise([self.template.render(probe, prompt.tools) for probe in chats])

    def _before(self, system: str) -> _Before:
        """Raises SystemPromptTooLong."""
        if not system:
            return self._plain
        if (found := self._systems.get(system)) is None:
            if len(self._systems) >= SYSTEMS_KEPT:
                self._systems.clear()
            found = self._systems[system] = self._read_system(system)
        return found

    def _read_system(self, system: str) -> _Before:
        text = self.harmless(system)
        tokens = len(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else 0
        room = self.max_prompt_tokens - tokens
        if fault := find_room_fault(tokens, self.max_prompt_tokens):
            raise SystemPromptTooLong(fault)
        gap = find_gap(room)
        gap_tokens = len(self.tokenizer(gap, add_special_tokens=False)["input_ids"])
        return _Before(room, gap, gap_tokens, _shared(*self._probe(Prompt("", system))))

    def _cut_all(self, texts: Sequence[tuple[str, str]]) -> list[str]:
        """(system prompt, text) of each → the text made harmless, without its middle where it is too long."""
        if not texts:
            return []
        told = [self.harmless(text) for _, text in texts]
        spans = self.tokenizer(told, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        cut = []
        for (system, _), text, places in zip(texts, told, spans, strict=True):
            before = self._before(system)
            cut.append(cut_middle(text, places, room=before.room, gap=before.gap, gap_tokens=before.gap_tokens))
        return cut


def as_prompt(prompt: str | Prompt) -> Prompt:
    """A plain text has no system prompt."""
    return Prompt(prompt) if isinstance(prompt, str) else prompt


def as_message(reply: str | Message) -> Message:
    """A plain text calls no tools."""
    return {"role": "assistant", "content": reply} if isinstance(reply, str) else reply


def messages_of(prompt: Prompt) -> list[Message]:
    """What is asked as the messages of a chat, the system's first where there is one."""
    if prompt.messages:
        return list(prompt.messages)
    told: list[Message] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*told, {"role": "user", "content": prompt.text}]


def system_of(messages: Sequence[Message]) -> str:
    """The system prompt at the beginning of a chat, "" without one."""
    return (messages[0]["content"] or "") if messages[0]["role"] == "system" else ""


def _is_asked(message: Message) -> bool:
    return bool(message["role"] == "user")


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count
