"""Makes what a model is asked, of an agent's version and a decision's state. PURE.

Everything that asks a model, or writes down what one was asked, calls `make_prompt`: serving, training, evaluation.

A template names fields of the state in double braces, dotted for nesting: `{{ item.title }}: {{ item.body }}`. `{{
item.body? }}` is optional and then reads "none". `{{ options }}` lists the offered options. Nothing else is evaluated:
stored text is data.

A chat is asked as it is, without the template: one message of the user's as a prompt, more of it as a chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from decisions.agents.chat_actions import CHATTING
from decisions.agents.choices import Version as OfActions
from decisions.agents.forms import tools_of
from models_registry.backends.chat_reading import ChatFault, has_messages, read_messages, read_tools
from models_registry.backends.chat_rows import Message, chat_as_text
from models_registry.backends.prompts import Prompt, put_before

FIELD = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(\?)?\s*\}\}")
MISSING = "none"
OF_CHAT = "{{ input }}"
"""The template of an agent that chats and was made without one: the field that every chat's state has."""
OF_CHATS = frozenset([
    "input", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "options",
    "model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "n", "stream",
    "stream_options", "frequency_penalty", "presence_penalty", "reasoning_effort", "user", "metadata",
])  # fmt: skip
"""What a chat's state holds: messages, the last question, and what a request to OpenAI's API says besides, as imported
traces have it. A template may name them; nothing of them is lost where the chat is asked as it is."""


class Version(OfActions, Protocol):
    """What is read of an agent's version."""

    @property
    def prompt_template(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...


class PromptError(ValueError):
    """The state lacks a field that the template names; `field` is its path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def template_fields(template: str) -> list[str]:
    """The paths that the template names, in order, without repetition. Raises ValueError for stray braces."""
    rest = FIELD.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise ValueError("a field is written {{ name }} or {{ name.inner }}, with a ? after the name if it is optional")
    return list(dict.fromkeys(match.group(1) for match in FIELD.finditer(template)))


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def make_prompt(version: Version, state: Mapping[str, Any], options: Sequence[str] = ()) -> Prompt:
    """What is asked after the version's system prompt: the chat that the state holds, or else the version's filled
    template. Raises PromptError."""
    if is_chat(version, state):
        messages, tools = read_chat(state)
        if len(messages) > 1 or tools or messages[0]["role"] != "user":
            if not tools and options:  # the version's own, which `decide` offers
                tools = [{"type": "function", "function": tool} for tool in tools_of(version, options)]
            told = put_before(version.system_prompt, messages)
            return Prompt(chat_as_text(told), "", tuple(map(dict, told)), tuple(tools))
        return Prompt(messages[0]["content"], version.system_prompt)
    return Prompt(render_prompt(version.prompt_template, state, options), version.system_prompt)


def is_chat(version: Version, state: Mapping[str, Any]) -> bool:
    """Whether the version answers chats and the state is one. A template that names other fields of the state asks
    more than its messages do, and is filled."""
    if version.action_space not in CHATTING or not has_messages(state):
        return False
    named = {match.group(1).split(".", 1)[0] for match in FIELD.finditer(version.prompt_template)}
    return not any(name in state for name in named - OF_CHATS)


def read_offered_tools(version: Version, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that came with a chat, as `decisions.agents.forms.tools_of` has them; empty where none did."""
    return [tool["function"] for tool in read_tools(state.get("tools"))] if is_chat(version, state) else []


def read_chat(state: Mapping[str, Any]) -> tuple[list[Message], list[Message]]:
    """Messages, at least one, and tools of the state, without any system prompt of the agent's. Raises PromptError."""
    try:
        messages = read_messages(state["messages"])
    except ChatFault as fault:
        raise PromptError(f"state.{fault.place}", fault.reason) from fault
    if not messages:
        raise PromptError("state.messages", "holds nothing that was said")
    return messages, read_tools(state.get("tools"))


def render_prompt(template: str, state: Mapping[str, Any], options: Sequence[str] = ()) -> str:
    """Fills the template. Raises PromptError for a field that the state lacks and must have."""

    def fill(match: re.Match[str]) -> str:
        path, optional = match.groups()
        if path == "options" and "options" not in state:
            return ", ".join(options)
        value: Any = state
        for name in path.split("."):
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif (
                isinstance(value, Sequence) and not isinstance(value, str) and name.isdigit() and int(name) < len(value)
            ):
                value = value[int(name)]
            elif optional:
                return MISSING
            else:
                raise PromptError(f"state.{path}", f"the prompt template uses {path}, which is not in the state")
        return MISSING if optional and value is None else as_text(value)

    return FIELD.sub(fill, template)
