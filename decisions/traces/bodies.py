"""Reads requests and answers of models' APIs, which some SDKs copy into one attribute each. PURE.

Known are OpenAI's chat completions and Responses, Anthropic's and Gemini's, lists of messages, and plain text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from decisions.traces.messages import Message, only_argument, parse_text, read_messages

SCHEMAS = ("inputSchema", "input_schema", "parameters_json_schema")
"""What the parameters of a tool are called elsewhere."""
ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})


def read_request(value: Any) -> list[Message]:
    """The messages of a request's body, or the user's words."""
    given = only_argument(parse_text(value))
    if not given:
        return []
    if isinstance(given, list):
        return _read_items(given) if _are_messages(given) else _words("user", given)
    if not isinstance(given, dict):
        return _words("user", given)
    system = next((given[key] for key in ("system", "instructions") if given.get(key)), None)
    asked = next((given[key] for key in ("messages", "contents", "input", "prompt") if given.get(key)), None)
    found = _words("user", given) if asked is None else read_request(asked)
    return [*read_messages([{"role": "system", "content": system}]), *found] if system and asked else found


def read_answer(value: Any) -> list[Message]:
    """The messages of an answer's body, or the assistant's words."""
    given = parse_text(value)
    if not given and given != 0:
        return []
    if isinstance(given, list):
        return _one_message(_read_items(given)) if _are_messages(given) else _words("assistant", value)
    if not isinstance(given, dict):
        return _words("assistant", given)
    if isinstance(choices := given.get("choices"), list):
        return read_messages([_spoken(choice.get("message", choice)) for choice in choices if isinstance(choice, dict)])
    if isinstance(candidates := given.get("candidates"), list):
        return read_messages([_spoken(one.get("content")) for one in candidates if isinstance(one, dict)])
    if isinstance(items := given.get("output"), list) and _are_messages(items):
        return _one_message(_read_items(items))
    if given.get("role") or given.get("tool_calls"):
        return read_messages([_spoken(given)])
    return _words("assistant", value)


def read_ending(value: Any) -> Any:
    """The word of an answer's body for why it ended; None where it says none."""
    given = parse_text(value)
    if not isinstance(given, dict):
        return None
    for several, word in (("choices", "finish_reason"), ("candidates", "finishReason")):
        if isinstance(answers := given.get(several), list) and answers and isinstance(answers[0], dict):
            return answers[0].get(word)
    return given.get("stop_reason")


def read_tools(value: Any) -> Any:
    """The tools on offer, each as an object whose schema is called `parameters`."""
    return [_read_tool(parse_text(tool)) for tool in value] if isinstance(value, list) else value


def tools_of_request(value: Any) -> Any:
    """Those that a request's body offers; None where it offers none."""
    given = parse_text(value)
    tools = given.get("tools") if isinstance(given, dict) else None
    return read_tools(tools) if isinstance(tools, list) and tools else None


def _read_tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or "parameters" in tool:
        return tool
    return {("parameters" if name in SCHEMAS else name): value for name, value in tool.items()}


def _are_messages(given: Sequence[Any]) -> bool:
    return bool(given) and all(isinstance(one, dict) and ("role" in one or one.get("type") in ITEMS) for one in given)


def _read_items(given: Sequence[Any]) -> list[Message]:
    """Messages, and the items of OpenAI's Responses beside them; what it reasoned is encrypted."""
    return read_messages([one for one in given if one.get("type") != "reasoning" or "role" in one])


def _one_message(messages: Sequence[Message]) -> list[Message]:
    """The items of one answer are one message: words, and calls beside them."""
    said = [message for message in messages if message["role"] == "assistant"]
    if len(said) < 2:
        return list(messages)
    made: Message = {"role": "assistant"}
    if words := "\n".join(message["content"] for message in said if message.get("content")):
        made["content"] = words
    if calls := [call for message in said for call in message.get("tool_calls", ())]:
        made["tool_calls"] = calls
    return [made]


def _spoken(message: Any) -> Mapping[str, Any]:
    """Reads it as the assistant's; Gemini's role is `model`, and completions without a chat have a text alone."""
    given = message if isinstance(message, dict) else {}
    content = given.get("content", given.get("text"))
    return {**given, "role": "assistant"} | ({} if content is None else {"content": content})


def _words(role: str, value: Any) -> list[Message]:
    """What is no message is said as it is."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return [{"role": role, "content": text}] if text.strip() not in ("", "{}", "[]", "null") else []
