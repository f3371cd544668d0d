"""A stub of OpenAI's server that answers by what it is asked, as a model of journeys would. So the order in which a
client asks, and how often, is the client's own."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.openai_server import OpenAIServer

OUT, BACK, FAR, RAIN = "Take the early train", "Take the late train back", "It is five hours away", "It rains in Oslo"
TRIP = {"to": "Oslo", "by": "train"}
CALL_ID = "call_1"
FIELD = re.compile(r"`\[\[ ## (\w+) ## \]\]`")
"""What DSPy asks for in words, at the end of a message."""


class TravelModel(OpenAIServer):
    def next_message(self) -> dict[str, Any]:
        body = self.asked[-1]
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or ()}
        last = body["messages"][-1]
        question = text_of(last)
        if fields := FIELD.findall(question):
            return {"content": "\n\n".join(f"[[ ## {name} ## ]]\n{_field(name, question)}" for name in fields)}
        if last["role"] == "tool" or "Observation" in question:
            return _call("final_answer", {"answer": RAIN}) if "final_answer" in tools else {"content": RAIN}
        if "weather" in question and "weather" in tools:
            return _call("weather", {"place": "Oslo"})
        if "trip" in question:
            for name, schema in tools.items():
                if schema.get("properties", {}).keys() == TRIP.keys():
                    return _call(name, TRIP)
            return {"content": json.dumps(TRIP)}
        return {"content": _answer(question)}


def _answer(question: str) -> str:
    return BACK if "back" in question else FAR if "far" in question else RAIN if "rain" in question else OUT


def _field(name: str, question: str) -> str:
    """Of an answer to DSPy."""
    knows = "rain in" in question
    return {
        "answer": _answer(question),
        "trip": json.dumps(TRIP),
        "next_tool_name": "finish" if knows else "weather",
        "next_tool_args": json.dumps({} if knows else {"place": "Oslo"}),
        "completed": "",
    }.get(name, "I think.")


def text_of(message: dict[str, Any]) -> str:
    """What a message says, be it a text or parts of text."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}]}
