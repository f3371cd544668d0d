"""Chat templates of the shapes that bases have, written for the tests, and a tokenizer whose tokens are words. Four of
them are golden: test_chat_rendering.py holds the token ids that each gives."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from training.engine.models.chats import INSTRUCTION, PLAIN_TEMPLATE

CONTROL = (
    "<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start|>", "<|head|>", "<|done|>", "<turn>", "</turn>",
)  # fmt: skip

BLOCKS = (
    "{%- if messages[0].role == 'system' %}{% set told = messages[0].content %}{% set rest = messages[1:] %}"
    "{%- else %}{% set told = '' %}{% set rest = messages %}{% endif %}"
    "{%- if told or tools %}{{ '<|im_start|>system\\n' + told }}"
    "{%- if tools %}{{ '\\n# Tools' }}{% for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}{% endif %}"
    "{{- '<|im_end|>\\n' }}{% endif %}"
    "{%- for message in rest %}{% if message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
    "{%- generation %}{{ message.content }}{% for call in message.tool_calls or [] %}"
    "{{- '\\n' if message.content or not loop.first else '' }}"
    "{{- '<tool_call>\\n' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}"
    "{{- '\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{%- elif message.role == 'tool' %}"
    "{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}"
    "{%- else %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Turns between control tokens, calls in blocks, and marks of what is generated."""
HEADERS = (
    "{{- '<s>' }}{% for message in messages %}{{ '<|start|>' + message.role + '<|head|>\\n\\n' }}"
    "{%- if message.tool_calls %}{% if message.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}"
    "{%- set call = message.tool_calls[0].function %}"
    "{{- '{\"name\": \"' + call.name + '\", \"parameters\": ' + call.arguments | tojson + '}' }}"
    "{%- else %}{{ message.content | trim }}{% endif %}"
    "{%- if tools and loop.first %}{{ '\\nFunctions:\\n' + tools | tojson }}{% endif %}{{ '<|done|>' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start|>assistant<|head|>\\n\\n' }}{% endif %}"
)
"""A header before each turn, contents trimmed, one call a turn."""
TURNS = (
    "{{- bos_token }}{% for message in messages %}"
    "{%- if message.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles alternate') }}{% endif %}"
    "{{- '<turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}"
    "{{- message.content | trim + '</turn>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif %}"
)
"""Without system prompts and tools; roles alternate; turns end otherwise than texts."""
GOLDEN = {"blocks": BLOCKS, "headers": HEADERS, "turns": TURNS, "plain": "{{ bos_token }}" + PLAIN_TEMPLATE}

THOUGHTS = (
    "{%- set asked = namespace(last=0) %}{% for message in messages %}{% if message.role == 'user' %}"
    "{%- set asked.last = loop.index0 %}{% endif %}{% endfor %}"
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' %}{% if loop.index0 > asked.last and loop.last %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{{ message.content.split('</think>')[-1].lstrip('\\n') }}"
    "{%- else %}{{ message.content }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Takes thoughts out of earlier answers, and puts an empty one before the last."""
BEGUN = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""Begins a thought where an answer begins, which a whole chat does not have."""
COUNTED = (
    "{{ messages | length }}{% for message in messages %}{{ message.role + ': ' + message.content + '</s>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
"""Writes what it has written before otherwise with every turn."""


def tokenizer_of(template: str, texts: list[str], end: str = "</s>") -> Any:
    """Tokens are words, white space, and single other characters, numbered as they come in the texts."""
    split = pre_tokenizers.Split(Regex(r"\w+|\s|[^\w\s]"), "isolated")
    read = [*texts, "System User Functions Result of think", INSTRUCTION, PLAIN_TEMPLATE, *GOLDEN.values()]
    words = [word for text in read for word, _ in split.pre_tokenize_str(text)]
    known = dict.fromkeys([*CONTROL, "[unknown]", *words, *ascii_letters])
    vocabulary = {word: number for number, word in enumerate(known)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[unknown]"))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.Fuse()
    wrapped: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token=end,
        extra_special_tokens=list(CONTROL[3:]),
        padding_side="left",
    )
    wrapped.chat_template = template
    return wrapped
