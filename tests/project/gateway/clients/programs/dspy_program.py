# /// script
# requires-python = ">=3.12"
# dependencies = ["dspy==3.4.1"]
# ///
"""DSPy, which writes the messages itself, and asks for tools and types in words."""

import sys

import dspy
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
headers = {"X-Reckoner-Unit": "ann", "X-Reckoner-Episode": "journey"}
lm = dspy.LM("openai/helper", api_base=url, api_key=key, cache=False, extra_headers=headers)
dspy.configure(lm=lm)


class Trip(BaseModel):
    to: str
    by: str


class Guide(dspy.Signature):
    """Be brief."""

    history: dspy.History = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


class Plan(dspy.Signature):
    """Plan what is asked for."""

    question: str = dspy.InputField()
    trip: Trip = dspy.OutputField()


def weather(place: str) -> str:
    """The weather at a place."""
    return f"rain in {place}"


def turns():
    guide = dspy.Predict(Guide)
    out = {"question": "How do I get to Oslo?"}
    first = guide(**out, history=dspy.History(messages=[])).answer
    history = dspy.History(messages=[out | {"answer": first}])
    return [first, guide(question="And back?", history=history).answer]


def tools():
    return dspy.ReAct("question -> answer", tools=[weather])(question="How is the weather in Oslo?").answer


def typed():
    return dspy.Predict(Plan)(question="Plan a trip to Oslo.").trip.model_dump()


async def stream():
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    answers = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
    pieces = [piece async for piece in answers(question="Is Oslo far?")]
    return [piece.chunk for piece in pieces if isinstance(piece, dspy.streaming.StreamResponse)]


run(turns, tools, typed, stream)
