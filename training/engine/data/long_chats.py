"""Chats that are too long for a model. Of a prompt the middle is left out (training.engine.models.prompts); of a chat
only what the user says is cut, so that all of it may still be more than the model reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from training.engine.data.reading import RunData
from training.engine.models.loading import Loaded
from training.engine.models.prompts import PromptEncoder, find_positions
from training.engine.rows.types import Preference, Text, prompts_of, replies_of, reply_of

R = TypeVar("R", Text, Preference)


def leave_out_long_chats(loaded: Loaded, max_prompt_tokens: int, data: RunData, warn: Callable[[str], None]) -> RunData:
    """The data without chats to learn from that have, with their replies, more tokens than the model has positions; a
    warning says how many. Raises ValueError where none is left."""
    encoder = PromptEncoder(loaded.tokenizer, max_prompt_tokens)
    positions = find_positions(loaded.model.config)

    def keep(rows: Sequence[R]) -> list[R]:
        long = {id(row) for row in rows if row.messages is not None and _count_tokens(encoder, row) > positions}
        if not long:
            return list(rows)
        what = f"{len(long)} of {len(rows)} chats are longer than the {positions} tokens that the model reads"
        if len(long) == len(rows):
            raise ValueError(f"{what}: none is left to learn from")
        warn(f"{what}, and were left out")
        return [row for row in rows if id(row) not in long]

    return msgspec.structs.replace(data, texts=keep(data.texts), preferences=keep(data.preferences))


def _count_tokens(encoder: PromptEncoder, row: Text | Preference) -> int:
    """Counts the tokens of the chat with its longest reply."""
    replies = replies_of(row) if isinstance(row, Preference) else (reply_of(row.completion, row.reply),)
    (asked,) = prompts_of([row])
    written = encoder.encode_replies([asked] * len(replies), replies)
    return len(encoder.encode([asked])[0]) + max(map(len, written))
