# /// script
# requires-python = ">=3.12"
# dependencies = ["llama-index-llms-openai-like==0.8.1"]
# ///
"""LlamaIndex's OpenAILike."""

import sys

from llama_index.core.llms import ChatMessage, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
llm = OpenAILike(
    model="helper",
    api_base=url,
    api_key=key,
    is_chat_model=True,
    is_function_calling_model=True,
    should_use_structured_outputs=True,
    default_headers={"X-Reckoner-Episode": "journey"},
    additional_kwargs={"user": "ann"},
)


class Trip(BaseModel):
    to: str
    by: str


def weather(place: str) -> str:
    """The weather at a place."""
    return f"rain in {place}"


def turns():
    messages = [ChatMessage("Be brief.", role="system"), ChatMessage("How do I get to Oslo?")]
    first = llm.chat(messages).message
    second = llm.chat([*messages, first, ChatMessage("And back?")]).message
    return [first.content, second.content]


def tools():
    tools = [FunctionTool.from_defaults(weather)]
    messages = [ChatMessage("How is the weather in Oslo?")]
    asked = llm.chat_with_tools(tools, chat_history=messages)
    messages.append(asked.message)
    for call in llm.get_tool_calls_from_response(asked):
        result = tools[0].call(**call.tool_kwargs)
        about = {"tool_call_id": call.tool_id}
        messages.append(ChatMessage(role="tool", blocks=[TextBlock(text=result.content)], additional_kwargs=about))
    return llm.chat_with_tools(tools, chat_history=messages).message.content


def typed():
    return llm.as_structured_llm(Trip).chat([ChatMessage("Plan a trip to Oslo.")]).raw.model_dump()


def stream():
    return [piece.delta for piece in llm.stream_chat([ChatMessage("Is Oslo far?")]) if piece.delta]


run(turns, tools, typed, stream)
