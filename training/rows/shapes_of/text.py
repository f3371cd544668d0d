"""Rows of texts: free text, tool calls, and structured actions that no schema enumerates, as canonical JSON.

The answer to a chat is the assistant's message: its words, and its calls as `reply` has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decisions.agents.chat_actions import canonical_action
from decisions.agents.prompts import PromptError, is_chat, make_prompt
from decisions.agents.replies import has_unread, make_reply
from decisions.models import AgentVersion
from models_registry.backends.chat_reading import names_pictures
from models_registry.backends.chat_rows import Message, find_chat_faults, reply_as_text
from models_registry.backends.prompts import Prompt
from training.rows.selection import Rewarded
from training.rows.shapes_of.prompts import prompt_columns


def as_completion(action: Any, words: str | None = None) -> str:
    """A text as it is, everything else as canonical JSON. `words`: what was said instead of calls, where the action has
    none."""
    if action == [] and words:
        return words
    return action if isinstance(action, str) else canonical_action(action)


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """`text` as graders and comparisons read it. `message`: the assistant's, where it is more than its words."""

    text: str
    message: Message | None = None

    def columns(self, text: str, message: str) -> dict[str, Any]:
        """Under these names; the message where there is one."""
        return {text: self.text, **({message: self.message} if self.message is not None else {})}


def write_answer(prompt: Prompt, action: Any, words: str | None = None) -> WrittenAnswer:
    """The answer to a prompt, as a row has it. `words`: what was said beside the calls or instead of any."""
    reply = make_reply(action, words, prompt.tools) if prompt.messages else None
    if reply is None:
        return WrittenAnswer(as_completion(action, words))
    return WrittenAnswer(reply_as_text(reply), reply if reply.get("tool_calls") else None)


def ask_text(version: AgentVersion, state: Mapping[str, Any], options: Any) -> Prompt | str:
    """What was asked, or why nothing can be learnt from it, a key of `training.datasets.preview.WHY`. Raises
    PromptError."""
    prompt = make_prompt(version, state, options or ())
    if is_chat(version, state) and names_pictures(state["messages"]):
        return "media"
    if prompt.messages and any(find_chat_faults(prompt.messages, prompt.tools)):
        return "chat"
    return prompt


def write_rows(decision: Rewarded) -> list[dict[str, Any]] | str:
    """One text row (training.engine.rows.types)."""
    try:
        prompt = ask_text(decision.version, decision.state, decision.options)
    except PromptError:
        return "prompt"
    if isinstance(prompt, str):
        return prompt
    if prompt.messages and has_unread(decision.action):
        return "call"
    answer = write_answer(prompt, decision.action, decision.completion)
    if not answer.text:
        return "action"
    log_p = _log_p(decision, answer)
    row = {
        "id": str(decision.id),
        **prompt_columns(prompt),
        **answer.columns("completion", "reply"),
        **decision.earned,
        **decision.transition,
        **({"log_p": log_p} if log_p is not None else {}),
    }
    return [row]


def _log_p(decision: Rewarded, answer: WrittenAnswer) -> float | None:
    """log P(completion | prompt): the sum of the tokens' logged log-probabilities. None where they are not known, or
    are those of another wording than the row's."""
    said = answer.message["content"] if answer.message is not None else answer.text
    if decision.completion not in (None, said) or not isinstance(decision.logprobs, list):
        return None
    numbers = [p for p in decision.logprobs if isinstance(p, int | float) and math.isfinite(p) and p <= 0.0]
    if not numbers or len(numbers) < len(decision.logprobs):
        return None
    return math.fsum(numbers)
