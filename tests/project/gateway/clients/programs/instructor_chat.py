# /// script
# requires-python = ">=3.12"
# dependencies = ["instructor==1.17.0"]
# ///
"""Instructor around OpenAI's client. Its default mode asks for the answer by a call of a tool."""

import sys

import instructor
from openai import OpenAI
from parts import run
from pydantic import BaseModel

url, key = sys.argv[1:]
openai = OpenAI(base_url=url, api_key=key, default_headers={"X-Reckoner-Episode": "journey"})
client = instructor.from_openai(openai)


class Trip(BaseModel):
    to: str
    by: str


def typed():
    messages = [{"role": "user", "content": "Plan a trip to Oslo."}]
    return client.chat.completions.create(
        model="helper", messages=messages, response_model=Trip, user="ann"
    ).model_dump()


def typed_by_schema():
    by_schema = instructor.from_openai(openai, mode=instructor.Mode.JSON_SCHEMA)
    messages = [{"role": "user", "content": "Plan a trip by its schema."}]
    return by_schema.create(model="helper", messages=messages, response_model=Trip, user="ann").model_dump()


def turns():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How do I get to Oslo?"}]
    first = client.create(model="helper", messages=messages, response_model=None, user="ann").choices[0].message
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And back?"}]
    second = client.create(model="helper", messages=messages, response_model=None, user="ann").choices[0].message
    return [first.content, second.content]


def stream():
    messages = [{"role": "user", "content": "Plan a trip piece by piece."}]
    partial = client.create_partial(model="helper", messages=messages, response_model=Trip, user="ann")
    return [trip.model_dump() for trip in partial]


run(turns, typed, typed_by_schema, stream)
