"""A small real agent, of the kind that hosts have: it plans, calls tools that compute and look things up, and answers.

No model is asked: which tools it calls is written in its query, `add 2 3; look up paris`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

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


class Shout:
    """A tool that is an object."""

    name = "shout"

    def __init__(self) -> None:
        self.calls = 0

    def run(self, text: str) -> str:
        self.calls += 1
        return text.upper()

    def __call__(self, text: str) -> str:
        return self.run(text)


class SmallAgent:
    """`run`, `a_run` and the streams answer a query; tools lie in `tools`, called by name through `arun_function`."""

    def __init__(self) -> None:
        self.name = "Assistant"
        self.tools: dict[str, Any] = {"add": add, "look up": look_up, "shout": Shout()}
        self.answered = 0

    async def arun_function(self, function_name: str, **kwargs: Any) -> Any:
        result = self.tools[function_name](**kwargs)
        return await result if asyncio.iscoroutine(result) else result

    def remember(self, answer: str) -> int:
        """A tool that is a method, called as one."""
        self.answered += 1
        return self.answered

    async def a_run(self, query: str, *, loud: bool = False) -> str:
        answers = []
        for wish in filter(None, (part.strip() for part in query.split(";"))):
            verb, _, rest = wish.partition(" ")
            if verb == "add":
                first, second = rest.split()
                answers.append(f"{await self.arun_function('add', first=float(first), second=float(second)):g}")
            else:
                answers.append(str(await self.arun_function("look up", place=rest.removeprefix("up "))))
        answer = ", ".join(answers)
        if loud:
            answer = self.tools["shout"](answer)
        self.remember(answer)
        return answer

    def run(self, query: str, *, loud: bool = False) -> str:
        return asyncio.run(self.a_run(query, loud=loud))

    def stream(self, query: str) -> Iterator[str]:
        for word in query.split():
            yield self.tools["shout"](word)

    async def astream(self, query: str) -> AsyncIterator[str]:
        for word in self.stream(query):
            yield word

    def invoke(self, query: str) -> Any:
        return self.stream(query)
