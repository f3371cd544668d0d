# /// script
# requires-python = ">=3.12"
# dependencies = ["litellm==1.110.2"]
# ///
"""LiteLLM, whose name for an agent is openai/SLUG. It sends `user` to OpenAI's models alone: the unit is a header."""

import json
import sys

import litellm
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
served = {
    "model": "openai/helper",
    "api_base": url,
    "api_key": key,
    "extra_headers": {"X-Reckoner-Unit": "ann", "X-Reckoner-Episode": "journey"},
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


class Trip(BaseModel):
    to: str
    by: str


def turns():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
    first = litellm.completion(messages=messages, **served).choices[0].message
    messages += [first, {"role": "user", "content": "And back?"}]
    second = litellm.completion(messages=messages, **served).choices[0].message
    return [first.content, second.content]


def tools():
    messages = [{"role": "user", "content": "How is the weather in Oslo?"}]
    asked = litellm.completion(messages=messages, tools=[WEATHER], **served).choices[0].message
    [call] = asked.tool_calls
    result = f"rain in {json.loads(call.function.arguments)['place']}"
    messages += [asked, {"role": "tool", "tool_call_id": call.id, "content": result}]
    return litellm.completion(messages=messages, tools=[WEATHER], **served).choices[0].message.content


def typed():
    messages = [{"role": "user", "content": "Plan a trip to Oslo."}]
    told = litellm.completion(messages=messages, response_format=Trip, **served)
    return json.loads(told.choices[0].message.content)


def stream():
    messages = [{"role": "user", "content": "Is Oslo far?"}]
    pieces = [chunk.choices[0].delta.content for chunk in litellm.completion(messages=messages, stream=True, **served)]
    return [piece for piece in pieces if piece]


run(turns, tools, typed, stream)
