"""A small real agent, of the kind that hosts have: it plans, calls tools that compute and look things up, and answers.

No model is asked: which tools it calls is written in its query, `add 2 3; look up paris`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from reckoner_client import tool

PLACES = {"paris": "France", "rome": "Italy"}


class UnknownPlace(LookupError):
    """The agent's own error."""


def add(first: float, second: float) -> float:
    return first + second


async def look_up(place: str) -> str:
    await asyncio.sleep(0)
    if place not in PLACES:
        raise UnknownPlace(place)
    return PLACES[place]


@tool
def shout(text: str) -> str:
    return text.upper()


class SmallAgent:
    """`run`, `a_run` and the streams answer a query; tools are called by name through `arun_function`."""

    def __init__(self) -> None:
        self.name = "Assistant"
        self.tools: dict[str, Any] = {"add": add, "look up": look_up}

    async def arun_function(self, function_name: str, **kwargs: Any) -> Any:
        result = self.tools[function_name](**kwargs)
        return await result if asyncio.iscoroutine(result) else result

    async def a_run(self, query: str, *, loud: bool = False) -> str:
        answers = []
        for wish in query.split("; "):
            verb, *rest = wish.split()
            if verb == "add":
                answers.append(f"{await self.arun_function('add', first=float(rest[0]), second=float(rest[1])):g}")
            else:
                answers.append(str(await self.arun_function("look up", place=rest[1])))
        return shout(", ".join(answers)) if loud else ", ".join(answers)

    def run(self, query: str, *, loud: bool = False) -> str:
        return asyncio.run(self.a_run(query, loud=loud))
