# /// script
# requires-python = ">=3.12"
# dependencies = ["langchain-openai==1.7.4"]
# ///
"""LangChain's ChatOpenAI, by chat completions, its default, or by responses."""

import sys
from functools import reduce
from operator import add

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from parts import run
from pydantic import BaseModel

url, key, api = sys.argv[1:]
model = ChatOpenAI(
    model="helper",
    base_url=url,
    api_key=key,
    default_headers={"X-Reckoner-Episode": "journey"},
    model_kwargs={"user": "ann"},
    use_responses_api=api == "responses",
)


class Trip(BaseModel):
    to: str
    by: str


@tool
def weather(place: str) -> str:
    """The weather at a place."""
    return f"rain in {place}"


def turns():
    messages = [SystemMessage("Be brief."), HumanMessage("How do I get to Oslo?")]
    first = model.invoke(messages)
    second = model.invoke([*messages, first, HumanMessage("And back?")])
    return [first.text, second.text]


def tools():
    with_tools = model.bind_tools([weather])
    messages = [HumanMessage("How is the weather in Oslo?")]
    asked = with_tools.invoke(messages)
    results = [weather.invoke(call) for call in asked.tool_calls]
    return with_tools.invoke([*messages, asked, *results]).text


def typed():
    return model.with_structured_output(Trip).invoke("Plan a trip to Oslo.").model_dump()


def stream():
    return [chunk.text for chunk in model.stream("Is Oslo far?") if chunk.text]


def streamed_tools():
    with_tools = model.bind_tools([weather])
    messages = [HumanMessage("Watch the weather in Oslo.")]
    asked = reduce(add, with_tools.stream(messages))
    results = [weather.invoke(call) for call in asked.tool_calls]
    return [chunk.text for chunk in with_tools.stream([*messages, asked, *results]) if chunk.text]


run(turns, tools, typed, stream, streamed_tools)
