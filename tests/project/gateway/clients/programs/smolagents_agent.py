# /// script
# requires-python = ">=3.12"
# dependencies = ["smolagents[openai]==1.26.0"]
# ///
"""smolagents: its model alone, and a ToolCallingAgent around it."""

import json
import sys

from parts import run
from pydantic import BaseModel
from smolagents import OpenAIModel, ToolCallingAgent, tool

url, key = sys.argv[1:]
model = OpenAIModel(
    model_id="helper",
    api_base=url,
    api_key=key,
    client_kwargs={"default_headers": {"X-Reckoner-Episode": "journey"}},
    user="ann",
)


class Trip(BaseModel):
    to: str
    by: str


@tool
def weather(place: str) -> str:
    """The weather at a place.

    Args:
        place: Where.
    """
    return f"rain in {place}"


def turns():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
    first = model(messages)
    second = model([*messages, first, {"role": "user", "content": "And back?"}])
    return [first.content, second.content]


def tools():
    return ToolCallingAgent(tools=[weather], model=model, verbosity_level=0).run("How is the weather in Oslo?")


def typed():
    schema = {"name": "Trip", "schema": Trip.model_json_schema()}
    wanted = {"type": "json_schema", "json_schema": schema}
    return json.loads(model([{"role": "user", "content": "Plan a trip to Oslo."}], response_format=wanted).content)


def stream():
    deltas = model.generate_stream([{"role": "user", "content": "Is Oslo far?"}])
    return [delta.content for delta in deltas if delta.content]


run(turns, tools, typed, stream)
