"""A stub of OpenAI's server that answers by what it is asked, as a model of journeys would. So the order in which a
client asks, and how often, is the client's own."""

from __future__ import annotations

import json
from typing import Any

from tests.openai_server import OpenAIServer

OUT, BACK, FAR, RAIN = "Take the early train", "Take the late train back", "It is five hours away", "It rains in Oslo"
TRIP = {"to": "Oslo", "by": "train"}
CALL_ID = "call_1"
RULED = "[[ ## {field} ## ]]"
"""How DSPy asks for the fields of an answer."""


class TravelModel(OpenAIServer):
    def next_message(self) -> dict[str, Any]:
        body = self.asked[-1]
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or ()}
        last = body["messages"][-1]
        question = text_of(last)
        if last["role"] == "tool" or "Observation" in question:
            return _call("final_answer", {"answer": RAIN}) if "final_answer" in tools else {"content": RAIN}
        if "weather" in question and "weather" in tools:
            return _call("weather", {"place": "Oslo"})
        if "trip" in question:
            for name, schema in tools.items():
                if schema.get("properties", {}).keys() == TRIP.keys():
                    return _call(name, TRIP)
            return {"content": json.dumps({"trip": TRIP} if '"trip"' in json.dumps(body) else TRIP)}
        answer = BACK if "back" in question else FAR if "far" in question else OUT
        if RULED.format(field="answer") in question:
            answer = f"{RULED.format(field='answer')}\n{answer}\n\n{RULED.format(field='completed')}"
        return {"content": answer}


def text_of(message: dict[str, Any]) -> str:
    """What a message says, be it a text or parts of text."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}]}
