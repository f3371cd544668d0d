# /// script
# requires-python = ">=3.12"
# dependencies = ["openai-agents==0.24.0"]
# ///
"""OpenAI's Agents SDK, which asks by the Responses API by default; `chat_completions` makes it use chats."""

import sys

from agents import (
    Agent,
    ModelSettings,
    Runner,
    function_tool,
    set_default_openai_api,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from parts import run
from pydantic import BaseModel

url, key, api = sys.argv[1:]
set_default_openai_client(AsyncOpenAI(base_url=url, api_key=key))
set_tracing_disabled(True)  # or it sends its traces to OpenAI
set_default_openai_api(api)
settings = ModelSettings(extra_args={"user": "ann"}, extra_headers={"X-Reckoner-Episode": "journey"})


class Trip(BaseModel):
    to: str
    by: str


@function_tool
def weather(place: str) -> str:
    """The weather at a place."""
    return f"rain in {place}"


async def turns():
    agent = Agent("Guide", instructions="Be brief.", model="helper", model_settings=settings)
    first = await Runner.run(agent, "How do I get to Oslo?")
    second = await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": "And back?"}])
    return [first.final_output, second.final_output]


async def tools():
    agent = Agent("Guide", tools=[weather], model="helper", model_settings=settings)
    return (await Runner.run(agent, "How is the weather in Oslo?")).final_output


async def typed():
    agent = Agent("Guide", output_type=Trip, model="helper", model_settings=settings)
    return (await Runner.run(agent, "Plan a trip to Oslo.")).final_output.model_dump()


async def stream():
    return await read(Runner.run_streamed(Agent("Guide", model="helper", model_settings=settings), "Is Oslo far?"))


async def streamed_tools():
    agent = Agent("Guide", tools=[weather], model="helper", model_settings=settings)
    return await read(Runner.run_streamed(agent, "Watch the weather in Oslo."))


async def read(running):
    events = [event.data async for event in running.stream_events() if event.type == "raw_response_event"]
    return [event.delta for event in events if event.type == "response.output_text.delta"]


run(turns, tools, typed, stream, streamed_tools)
