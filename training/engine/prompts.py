"""Prompt text → token ids: the chat template, control tokens in the text, and the cut of what is too long.

Training, evaluation and serving encode by this one class, so that a model decides on what it has learnt from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | capitalize + ':\\n' + message['content'] "
    "+ (eos_token if message['role'] == 'assistant' else '') + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:\\n' }}{% endif %}"
)
"""For a base without a chat template: roles as words, for it knows no tokens for them."""
GAP = " ... "
ROOM_FOR_GAP = 16
"""Fewer prompt tokens than this are too few to spend some on a mark."""
LONGEST = 4096
"""Tokens of a completion, at most, where the spec does not say."""
MARGIN = 16
"""Tokens by which a chat that is rendered again may be longer."""


def plain_template(tokenizer: Any) -> str:
    """PLAIN_TEMPLATE, after the beginning-of-sequence token where the tokenizer itself puts one."""
    begins = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return "{{ bos_token }}" + PLAIN_TEMPLATE if begins else PLAIN_TEMPLATE


def find_room(tokenizer: Any, config: Any, max_prompt_tokens: int, texts: Sequence[str]) -> int:
    """Tokens for the longest of the texts and its end, at least 1; no more than the positions of a model with this
    config leave beside the prompt."""
    encoder = PromptEncoder(tokenizer, max_prompt_tokens)
    ids = tokenizer([encoder.harmless(text) for text in texts], add_special_tokens=False)["input_ids"]
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or LONGEST
    around = encoder.head + encoder.tail + max_prompt_tokens + MARGIN
    return min(max(1, min(LONGEST, positions - around)), 1 + max(map(len, ids)))


class PromptEncoder:
    """Prompt text → token ids, the same in training, evaluation and serving.

    Of a text with more than `max_prompt_tokens` tokens the middle is left out: what a template asks stands at its
    beginning or its end. The text is then wrapped by the tokenizer's chat template as the user's turn, up to where the
    answer begins. A control token spelled out in the text is broken up: a prompt cannot end its own turn.
    """

    def __init__(self, tokenizer: Any, max_prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.max_prompt_tokens = max_prompt_tokens
        control = sorted(
            {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}, key=len, reverse=True
        )
        self._control = re.compile("|".join(re.escape(token) for token in control)) if control else None
        self._gap = GAP if max_prompt_tokens >= ROOM_FOR_GAP else " "
        self._gap_tokens = len(tokenizer(self._gap, add_special_tokens=False)["input_ids"])
        probes = self.encode(["a", "0 b"])
        self.head = _shared(probes[0], probes[1])
        self.tail = _shared(probes[0][::-1], probes[1][::-1])

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Prompt texts → token ids up to where the answer begins, one list a prompt."""
        if not prompts:
            return []
        rendered = [
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
            )
            for text in self.cut(prompts)
        ]
        ids: list[list[int]] = self.tokenizer(rendered, add_special_tokens=False)["input_ids"]
        return ids

    def cut(self, prompts: Sequence[str]) -> list[str]:
        """What the model reads of each prompt: made harmless, without the middle where it is too long."""
        return [self._cut(text, spans) for text, spans in self._read(prompts)] if prompts else []

    def count_cut(self, prompts: Sequence[str]) -> int:
        """How many of them `encode` cuts."""
        return sum(len(spans) > self.max_prompt_tokens for _, spans in self._read(prompts)) if prompts else 0

    def content(self, prompt_ids: Sequence[int]) -> Sequence[int]:
        """The tokens of the prompt itself, without the template's."""
        return prompt_ids[self.head : len(prompt_ids) - self.tail]

    def harmless(self, text: str) -> str:
        """The text with control tokens that it spells out broken up."""
        return text if self._control is None else self._control.sub(lambda found: " ".join(found[0]), text)

    def _read(self, prompts: Sequence[str]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Each text made harmless, with the places (begin, end) of its tokens."""
        texts = [self.harmless(prompt) for prompt in prompts]
        read = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return zip(texts, read, strict=True)

    def _cut(self, text: str, spans: Sequence[tuple[int, int]]) -> str:
        """The text, or its first and last tokens with a mark between them; of an odd number one more is first."""
        if len(spans) <= self.max_prompt_tokens:
            return text
        room = self.max_prompt_tokens - self._gap_tokens
        last = room // 2
        return text[: spans[room - last - 1][1]].rstrip() + self._gap + text[spans[-last][0] :].lstrip()


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count
