"""Prompts → token ids: system prompts, the chat template, control tokens in texts, and the cut of what is too long.

Training, evaluation and serving encode by this one class, so that a model decides on what it has learnt from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from models_registry.backends.prompt_cut import cut_middle, find_gap, find_room_fault
from training.engine.rows.types import Asking, Prompt, Text

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | capitalize + ':\\n' + message['content'] "
    "+ (eos_token if message['role'] == 'assistant' else '') + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:\\n' }}{% endif %}"
)
"""For a base without a chat template: roles as words, for it knows no tokens for them. A system prompt is `System:` and
stands in front."""
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
Message = dict[str, str]


def plain_template(tokenizer: Any) -> str:
    """PLAIN_TEMPLATE, after the beginning-of-sequence token where the tokenizer itself puts one."""
    begins = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return "{{ bos_token }}" + PLAIN_TEMPLATE if begins else PLAIN_TEMPLATE


def find_room(tokenizer: Any, config: Any, max_prompt_tokens: int, rows: Sequence[Text]) -> int:
    """Tokens for the longest completion of the rows and its end, at least 1; no more than the positions of a model with
    this config leave beside the longest of their prompts, which may be far shorter than an agent allows."""
    encoder = PromptEncoder(tokenizer, max_prompt_tokens)
    ids = tokenizer([encoder.harmless(row.completion) for row in rows], add_special_tokens=False)["input_ids"]
    asked = tokenizer([f"{row.system or ''}\n{row.prompt}" for row in rows], add_special_tokens=False)["input_ids"]
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or LONGEST
    around = encoder.around + min(max_prompt_tokens, max(map(len, asked))) + MARGIN
    return min(max(1, min(LONGEST, positions - around)), 1 + max(map(len, ids)))


def find_prompt_room(tokenizer: Any, config: Any, max_completion_tokens: int | None, rows: Sequence[Asking]) -> int:
    """Tokens for the longest prompt of the rows with its system prompt; no more than the positions of a model with this
    config leave beside the template and the answer, for which a quarter of them stays where it has no limit."""
    encoder = PromptEncoder(tokenizer, LEAST_PROMPT)
    asked = tokenizer([f"{row.system or ''}\n{row.prompt}" for row in rows], add_special_tokens=False)["input_ids"]
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or MOST_PROMPT
    answer = max_completion_tokens or positions // 4
    longest = MARGIN + max(map(len, asked))
    return max(LEAST_PROMPT, min(longest, positions - encoder.around - MARGIN - answer, MOST_PROMPT))


class SystemPromptTooLong(ValueError):
    """It leaves no tokens for what is asked."""


def knows_system_role(tokenizer: Any) -> bool:
    """Whether its chat template writes a system message out. Gemma 2's refuses one, and others leave it out."""
    probe = "0 system"
    said = [{"role": "system", "content": probe}, {"role": "user", "content": "a"}]
    try:
        rendered: str = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    except Exception:  # noqa: BLE001 - templates are programs of the model's authors, and raise whatever they like
        return False
    return probe in rendered


def fold_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """For a template without a system role: the system messages at the beginning, put in front of the first of the
    user's turns."""
    count = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    said = "\n\n".join(message["content"] for message in messages[:count] if message["content"])
    rest = list(messages[count:])
    if not said:
        return rest
    if not rest or rest[0]["role"] != "user":
        return [{"role": "user", "content": said}, *rest]
    return [{**rest[0], "content": f"{said}\n\n{rest[0]['content']}"}, *rest[1:]]


@dataclass(frozen=True, slots=True)
class _Before:
    """Of a system prompt. `tokens`: its own; `room`: what it leaves for the text, where `gap` marks a cut; `head`: how
    many tokens of an encoded prompt stand before the text, the template's too."""

    tokens: int
    room: int
    gap: str
    gap_tokens: int
    head: int


class PromptEncoder:
    """Prompts → token ids, the same in training, evaluation and serving.

    A prompt is a text, or one with a system prompt. Of a text the middle is left out where both together have more than
    `max_prompt_tokens` tokens: what a template asks stands at its beginning or its end, and a system prompt is read
    whole. The text is then wrapped by the tokenizer's chat template as the user's turn after the system's, up to where
    the answer begins. A control token spelled out in either is broken up: a prompt cannot end its own turn.

    Encoding and cutting raise SystemPromptTooLong.
    """

    def __init__(self, tokenizer: Any, max_prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.max_prompt_tokens = max_prompt_tokens
        control = sorted(
            {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}, key=len, reverse=True
        )
        self._control = re.compile("|".join(re.escape(token) for token in control)) if control else None
        self._systems: dict[str, _Before] = {}
        self._plain = self._read_system("")
        self.head = self._plain.head
        probes = self._probe("")
        self.tail = _shared(probes[0][::-1], probes[1][::-1])

    @cached_property
    def knows_system(self) -> bool:
        """Whether the template has a role for system prompts; else they stand in front of the user's text."""
        return knows_system_role(self.tokenizer)

    def encode(self, prompts: Sequence[str | Prompt]) -> list[list[int]]:
        """Prompts → token ids up to where the answer begins, one list a prompt."""
        if not prompts:
            return []
        return self._encode(self.chats(prompts))

    def chats(self, prompts: Sequence[str | Prompt]) -> list[list[Message]]:
        """What the model reads of each prompt, as the messages of a chat: made harmless, without the middle of the text
        where it is too long."""
        if not prompts:
            return []
        read = zip(map(as_prompt, prompts), self._read(prompts), strict=True)
        return [self._chat(prompt.system, self._cut(text, spans, prompt.system)) for prompt, (text, spans) in read]

    def cut(self, prompts: Sequence[str | Prompt]) -> list[str]:
        """The texts of `chats` alone, without their system prompts."""
        if not prompts:
            return []
        read = zip(map(as_prompt, prompts), self._read(prompts), strict=True)
        return [self._cut(text, spans, prompt.system) for prompt, (text, spans) in read]

    def count_cut(self, prompts: Sequence[str | Prompt]) -> int:
        """How many of them `encode` cuts."""
        if not prompts:
            return 0
        read = zip(map(as_prompt, prompts), self._read(prompts), strict=True)
        return sum(len(spans) > self._before(prompt.system).room for prompt, (_, spans) in read)

    def content(self, prompt_ids: Sequence[int], system: str = "") -> Sequence[int]:
        """The tokens of the prompt's own text, without the template's and the system prompt's."""
        return prompt_ids[self._before(system).head : len(prompt_ids) - self.tail]

    def heads(self, prompts: Iterable[str | Prompt]) -> list[int]:
        """Of each prompt, how many tokens stand before its own text when it is encoded."""
        return [self._before(as_prompt(prompt).system).head for prompt in prompts]

    @property
    def around(self) -> int:
        """The most tokens that the template puts around any prompt so far."""
        return self.tail + max(one.head - one.tokens for one in (self._plain, *self._systems.values()))

    def find_faults(self, prompts: Iterable[str | Prompt]) -> list[str]:
        """What is wrong with each system prompt that leaves no room for what is asked."""
        faults = []
        for system in dict.fromkeys(as_prompt(prompt).system for prompt in prompts):
            try:
                self._before(system)
            except SystemPromptTooLong as error:
                faults.append(str(error))
        return faults

    def harmless(self, text: str) -> str:
        """The text with control tokens that it spells out broken up."""
        return text if self._control is None else self._control.sub(lambda found: " ".join(found[0]), text)

    def _chat(self, system: str, text: str) -> list[Message]:
        told = self.harmless(system)
        if told and not self.knows_system:
            return [{"role": "user", "content": f"{told}\n\n{text}"}]
        before = [{"role": "system", "content": told}] if told else []
        return [*before, {"role": "user", "content": text}]

    def _encode(self, chats: Sequence[Sequence[Message]]) -> list[list[int]]:
        rendered = [
            self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in chats
        ]
        ids: list[list[int]] = self.tokenizer(rendered, add_special_tokens=False)["input_ids"]
        return ids

    def _probe(self, system: str) -> list[list[int]]:
        """Two prompts whose texts share nothing: what the encoded ones share is not theirs."""
        return self._encode([self._chat(system, text) for text in ("a", "0 b")])

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
        return _Before(tokens, room, gap, gap_tokens, _shared(*self._probe(system)))

    def _read(self, prompts: Sequence[str | Prompt]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Each text made harmless, with the places (begin, end) of its tokens."""
        texts = [self.harmless(as_prompt(prompt).text) for prompt in prompts]
        read = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return zip(texts, read, strict=True)

    def _cut(self, text: str, spans: Sequence[tuple[int, int]], system: str) -> str:
        before = self._before(system)
        return cut_middle(text, spans, room=before.room, gap=before.gap, gap_tokens=before.gap_tokens)


def as_prompt(prompt: str | Prompt) -> Prompt:
    """A plain text has no system prompt."""
    return Prompt(prompt) if isinstance(prompt, str) else prompt


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count
