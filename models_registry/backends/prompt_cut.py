"""Leaves out the middle of a prompt that is too long. PURE.

Training and our model server do it by the model's tokenizer (`training.engine.models.prompts`), and the gateway by that
of llama.cpp's server or vLLM with a model of ours (`models_registry.backends.token_cuts`): a model reads the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

GAP = " ... "
ROOM_FOR_GAP = 16
"""Fewer tokens than this are too few to spend some on a mark."""
LEAST_ROOM = 4
"""Tokens that a system prompt must leave for what is asked."""


def find_gap(room: int) -> str:
    """What stands in the place of the middle, where the text has so many tokens."""
    return GAP if room >= ROOM_FOR_GAP else " "


def find_room_fault(system_tokens: int, max_prompt_tokens: int) -> str | None:
    """Why a system prompt of so many tokens leaves too few for the text; None where it leaves enough."""
    if max_prompt_tokens - system_tokens >= LEAST_ROOM or not system_tokens:
        return None
    return (
        f"the system prompt has {system_tokens} tokens and leaves fewer than {LEAST_ROOM} of max_prompt_tokens "
        f"{max_prompt_tokens} for the prompt: shorten it, or raise max_prompt_tokens to at least "
        f"{system_tokens + LEAST_ROOM}"
    )


def cut_middle(text: str, spans: Sequence[tuple[int, int]], *, room: int, gap: str, gap_tokens: int) -> str:
    """The text where it has at most `room` tokens; else its first and last tokens with the gap between them. Of an odd
    number one more is first. `spans`: begin and end of each token in the text, in characters."""
    if len(spans) <= room:
        return text
    kept = room - gap_tokens
    last = kept // 2
    return text[: spans[kept - last - 1][1]].rstrip() + gap + text[spans[-last][0] :].lstrip()
