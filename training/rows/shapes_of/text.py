"""Rows of texts: free text, tool calls, and structured actions that no schema enumerates, as canonical JSON."""

from __future__ import annotations

import math
from typing import Any

from decisions.agents.chat_actions import canonical_action
from decisions.agents.prompts import PromptError, make_prompt
from training.rows.selection import Rewarded
from training.rows.shapes_of.prompts import prompt_columns


def as_completion(action: Any) -> str:
    """A text as it is, everything else as canonical JSON."""
    return action if isinstance(action, str) else canonical_action(action)


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """One text row (training.engine.rows.types)."""
    completion = as_completion(decision.action)
    if not completion:
        return "action"
    try:
        prompt = make_prompt(decision.version, decision.state, decision.options or ())
    except PromptError:
        return "prompt"
    log_p = _log_p(decision, completion)
    row = {
        "id": str(decision.id),
        **prompt_columns(prompt),
        "completion": completion,
        **decision.earned,
        **decision.transition,
        **({"log_p": log_p} if log_p is not None else {}),
    }
    return [row]


def _log_p(decision: Rewarded, completion: str) -> float | None:
    """log P(completion | prompt): the sum of the tokens' logged log-probabilities. None where they are not known, or
    are those of another wording than the row's."""
    if decision.completion not in (None, completion) or not isinstance(decision.logprobs, list):
        return None
    numbers = [p for p in decision.logprobs if isinstance(p, int | float) and math.isfinite(p) and p <= 0.0]
    if not numbers or len(numbers) < len(decision.logprobs):
        return None
    return math.fsum(numbers)
