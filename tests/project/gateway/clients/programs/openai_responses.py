# /// script
# requires-python = ">=3.12"
# dependencies = ["openai==3.57.0"]
# ///
"""OpenAI's client for Python, by the Responses API."""

import json
import sys

from openai import OpenAI
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
client = OpenAI(base_url=url, api_key=key, default_headers={"X-Reckoner-Episode": "journey"})
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Trip(BaseModel):
    to: str
    by: str


def turns():
    conversation = [{"role": "user", "content": "How do I get to Oslo?"}]
    first = client.responses.create(model="helper", instructions="Be brief.", input=conversation, user="ann")
    conversation += [*first.output, {"role": "user", "content": "And back?"}]
    second = client.responses.create(model="helper", instructions="Be brief.", input=conversation, user="ann")
    return [first.output_text, second.output_text]


def tools():
    conversation = [{"role": "user", "content": "How is the weather in Oslo?"}]
    asked = client.responses.create(model="helper", input=conversation, tools=[WEATHER], user="ann")
    [call] = [item for item in asked.output if item.type == "function_call"]
    result = f"rain in {json.loads(call.arguments)['place']}"
    conversation += [*asked.output, {"type": "function_call_output", "call_id": call.call_id, "output": result}]
    return client.responses.create(model="helper", input=conversation, tools=[WEATHER], user="ann").output_text


def typed():
    told = client.responses.parse(model="helper", input="Plan a trip to Oslo.", text_format=Trip, user="ann")
    return told.output_parsed.model_dump()


def stream():
    with client.responses.stream(model="helper", input="Is Oslo far?", user="ann") as events:
        return [event.delta for event in events if event.type == "response.output_text.delta"]


run(turns, tools, typed, stream)
