# /// script
# requires-python = ">=3.12"
# dependencies = ["openai==3.57.0"]
# ///
"""OpenAI's client for Python, by chat completions."""

import json
import sys

from openai import OpenAI, pydantic_function_tool
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
client = OpenAI(base_url=url, api_key=key, default_headers={"X-Reckoner-Episode": "journey"})


class Trip(BaseModel):
    to: str
    by: str


class Weather(BaseModel):
    """The weather at a place."""

    place: str


def turns():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
    first = client.chat.completions.create(model="helper", messages=messages, user="ann")
    messages += [first.choices[0].message, {"role": "user", "content": "And back?"}]
    second = client.chat.completions.create(model="helper", messages=messages, user="ann")
    return [first.choices[0].message.content, second.choices[0].message.content]


def tools():
    tools = [pydantic_function_tool(Weather, name="weather")]
    messages = [{"role": "user", "content": "How is the weather in Oslo?"}]
    asked = client.chat.completions.create(model="helper", messages=messages, tools=tools, user="ann")
    [call] = asked.choices[0].message.tool_calls
    place = json.loads(call.function.arguments)["place"]
    result = {"role": "tool", "tool_call_id": call.id, "content": f"rain in {place}"}
    messages += [asked.choices[0].message, result]
    answered = client.chat.completions.create(model="helper", messages=messages, tools=tools, user="ann")
    return answered.choices[0].message.content


def typed():
    messages = [{"role": "user", "content": "Plan a trip to Oslo."}]
    parsed = client.chat.completions.parse(model="helper", messages=messages, response_format=Trip, user="ann")
    return parsed.choices[0].message.parsed.model_dump()


def stream():
    messages = [{"role": "user", "content": "Is Oslo far?"}]
    with client.chat.completions.stream(model="helper", messages=messages, user="ann") as events:
        return [event.delta for event in events if event.type == "content.delta"]


run(turns, tools, typed, stream)
