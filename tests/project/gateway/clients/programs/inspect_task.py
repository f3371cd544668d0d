# /// script
# requires-python = ">=3.12"
# dependencies = ["inspect-ai==0.3.285", "openai==3.57.0"]
# ///
"""Inspect, whose name for an agent is openai-api/reckoner/SLUG, in a task and by its model alone."""

import json
import sys

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, ResponseSchema, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
config = GenerateConfig(extra_headers={"X-Reckoner-Episode": "journey"}, extra_body={"user": "ann"})
model = get_model("openai-api/reckoner/helper", base_url=url, api_key=key, config=config)


class Trip(BaseModel):
    to: str
    by: str


@tool
def weather():
    async def execute(place: str) -> str:
        """The weather at a place.

        Args:
            place: Where.
        """
        return f"rain in {place}"

    return execute


async def turns():
    messages = [ChatMessageSystem(content="Be brief."), ChatMessageUser(content="How do I get to Oslo?")]
    first = await model.generate(messages)
    second = await model.generate([*messages, first.message, ChatMessageUser(content="And back?")])
    return [first.completion, second.completion]


async def typed():
    wanted = GenerateConfig(response_schema=ResponseSchema(name="Trip", json_schema=json_schema(Trip)))
    return json.loads((await model.generate("Plan a trip to Oslo.", config=wanted)).completion)


async def tools():
    task = Task(dataset=[Sample("How is the weather in Oslo?")], solver=[use_tools(weather()), generate()])
    [log] = await eval_async(task, model=model, log_dir="logs")
    return log.samples[0].output.completion


run(turns, typed, tools)
