"""Why an answer ended, as its decision keeps it."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import models


class FinishReason(models.TextChoices):
    """OpenAI's words, and two of our own for streams that did not come to their end."""

    STOP = "stop", "Finished"
    LENGTH = "length", "Cut at its limit of tokens"
    TOOL_CALLS = "tool_calls", "Calls tools"
    CONTENT_FILTER = "content_filter", "Ended by a content filter"
    ABANDONED = "abandoned", "The client left"
    CUT = "cut", "The server broke off"


INCOMPLETE = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ABANDONED, FinishReason.CUT)
"""Such an answer is not all that the model would have said: models do not learn from it, unless they are asked to."""
COMPLETE = "({column} IS NULL OR {column} NOT IN ('length', 'content_filter', 'abandoned', 'cut'))"
"""SQL: nothing is known to be missing from the answer; `column` is that of the reason."""
OTHER_WORDS: Mapping[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool-calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content-filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "error": FinishReason.CUT,
}
"""What servers of other protocols say, in lower case."""


def read_finish_reason(word: object) -> str | None:
    """None for a word that nobody knows."""
    known = word.lower() if isinstance(word, str) else ""
    return str(FinishReason(known)) if known in FinishReason.values else OTHER_WORDS.get(known)
