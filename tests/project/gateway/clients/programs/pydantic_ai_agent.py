# /// script
# requires-python = ">=3.12"
# dependencies = ["pydantic-ai-slim[openai]==2.68.0"]
# ///
"""An agent of pydantic-ai, by chat completions or by responses. It asks for typed output by a call of a tool."""

import sys

from parts import run
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

url, key, api = sys.argv[1:]
kind = OpenAIResponsesModel if api == "responses" else OpenAIChatModel
model = kind("helper", provider=OpenAIProvider(base_url=url, api_key=key))
settings = OpenAIChatModelSettings(openai_user="ann", extra_headers={"X-Reckoner-Episode": "journey"})


class Trip(BaseModel):
    to: str
    by: str


def turns():
    agent = Agent(model, instructions="Be brief.", model_settings=settings)
    first = agent.run_sync("How do I get to Oslo?")
    second = agent.run_sync("And back?", message_history=first.all_messages())
    return [first.output, second.output]


def tools():
    agent = Agent(model, model_settings=settings)

    @agent.tool_plain
    def weather(place: str) -> str:
        """The weather at a place."""
        return f"rain in {place}"

    return agent.run_sync("How is the weather in Oslo?").output


def typed():
    return Agent(model, output_type=Trip, model_settings=settings).run_sync("Plan a trip to Oslo.").output.model_dump()


async def stream():
    async with Agent(model, model_settings=settings).run_stream("Is Oslo far?") as answer:
        return [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]


run(turns, tools, typed, stream)
