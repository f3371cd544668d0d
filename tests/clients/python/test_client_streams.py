"""Agents and tools that stream: recorded as they are read, and read as before."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from reckoner_client import Reckoner, current_recording, tool

from decisions.models import Decision, Episode, Step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("assistant", "nothing_went_wrong"),
]


@tool
def upper(word: str) -> str:
    return word.upper()


def results_of(decision: Decision) -> list[Any]:
    return [step.result for step in Step.objects.filter(decision=decision).order_by("number")]


def results_by_action() -> dict[str, list[Any]]:
    return {decision.action: results_of(decision) for decision in Decision.objects.all()}


def test_what_a_generator_yields_returns_or_says_is_the_action_once_it_has_been_read(client: Reckoner) -> None:
    @client.recorded("assistant")
    def words(text: str) -> Iterator[str]:
        for word in text.split():
            yield upper(word) + " "

    @client.recorded("assistant")
    def returns(text: str) -> Generator[str, None, str]:
        yield "thinking"
        return text

    @client.recorded("assistant", action=lambda chunks: "".join(chunk["text"] for chunk in chunks))
    def makes(text: str) -> Iterator[dict[str, str]]:
        yield from ({"text": letter} for letter in text)

    @client.recorded("assistant")
    def says(text: str) -> Iterator[str]:
        recording = current_recording()
        assert recording is not None
        recording.act(text)
        yield "never mind"

    def outer() -> Iterator[str]:
        assert (yield from returns("returned")) == "returned"

    reading = words("one two")
    assert next(reading) == "ONE "
    assert client.flush()
    assert Decision.objects.count() == 0
    assert list(reading) == ["TWO "]
    assert list(outer()) == ["thinking"]
    assert len(list(makes("made"))) == 4
    assert list(says("said")) == ["never mind"]
    assert client.flush()
    assert results_by_action() == {"ONE TWO ": ["ONE", "TWO"], "returned": [], "made": [], "said": []}


def test_between_a_generator_s_stretches_nothing_is_current(client: Reckoner) -> None:
    """Two are read in turns, and what their reader calls is none of theirs."""

    @client.recorded("assistant")
    def words(text: str) -> Iterator[str]:
        with client.recording("assistant", {}, policy_name="own") as inner:
            upper(f"{text} inner")
            yield "a"
            assert current_recording() is inner
            inner.act(f"{text} inner")
        upper(text)
        yield text

    with client.recording("assistant", {}, policy_name="own") as reader:
        for _ in zip(words("first"), words("second"), strict=True):
            upper("reader")
            assert current_recording() is reader
        reader.act("done")
    assert current_recording() is None
    assert client.flush()
    assert results_by_action() == {
        "afirst": ["FIRST"], "asecond": ["SECOND"], "first inner": ["FIRST INNER"],
        "second inner": ["SECOND INNER"], "done": ["READER", "READER"],
    }  # fmt: skip


def test_what_is_sent_and_thrown_into_a_generator_arrives(client: Reckoner) -> None:
    def echo() -> Generator[str, str, str]:
        heard = ""
        while heard != "end":
            try:
                heard = yield f"heard {heard}"
            except KeyError as error:
                yield f"caught {error}"
        return "over"

    async def aecho() -> Any:
        heard = ""
        while heard != "end":
            try:
                heard = yield f"heard {heard}"
            except KeyError as error:
                yield f"caught {error}"

    def talk(generator: Generator[str, str, str]) -> list[str]:
        said = [next(generator), generator.send("hello"), generator.throw(KeyError("key")), next(generator)]
        with pytest.raises(StopIteration) as stopped:
            generator.send("end")
        return [*said, stopped.value.value]

    async def atalk(generator: Any) -> list[str]:
        said = [await anext(generator), await generator.asend("hello")]
        said += [await generator.athrow(KeyError("key")), await anext(generator)]
        with pytest.raises(StopAsyncIteration):
            await generator.asend("end")
        return said

    assert talk(client.recorded("assistant")(echo)()) == talk(echo())
    plain = asyncio.run(atalk(aecho()))
    assert asyncio.run(atalk(client.recorded("assistant")(aecho)())) == plain
    assert client.flush()
    assert set(results_by_action()) == {"over", "".join(plain)}


@pytest.mark.parametrize(
    ("end", "error"),
    [
        *[(end, "GeneratorExit") for end in ("close", "forget", "aclose")],
        ("cancel", "CancelledError"), ("fail", "LookupError: no such note"), ("afail", "LookupError: no such note"),
    ],
)  # fmt: skip
def test_a_generator_that_does_not_come_to_its_end_decides_nothing(end: str, error: str, client: Reckoner) -> None:
    ended = []

    @client.recorded("assistant")
    def words() -> Iterator[str]:
        try:
            yield "a"
            if end == "fail":
                raise LookupError("no such note")
            yield "b"
        finally:
            ended.append(current_recording())

    @client.recorded("assistant")
    async def awords() -> AsyncIterator[str]:
        try:
            yield "a"
            if end == "afail":
                raise LookupError("no such note")
            await asyncio.sleep(600)
        finally:
            ended.append(current_recording())

    async def read() -> None:
        reading: Any = awords()
        assert await anext(reading) == "a"
        if end == "aclose":
            await reading.aclose()
            return
        following = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(0)
        if end == "cancel":
            following.cancel()
        with pytest.raises(asyncio.CancelledError if end == "cancel" else LookupError):
            await following

    words()  # not even begun: nothing to tell
    if end in {"aclose", "cancel", "afail"}:
        asyncio.run(read())
    else:
        reading: Any = words()
        next(reading)
        if end == "fail":
            with pytest.raises(LookupError) as caught:
                next(reading)
            assert caught.traceback[-1].name == "words"
        elif end != "forget":
            reading.close()
        del reading
        gc.collect()
    assert len(ended) == 1 and ended[0] is not None
    assert client.flush()
    assert Decision.objects.count() == 0
    assert Episode.objects.count() == 1
    assert Step.objects.get(kind="span").error == error


def test_a_generator_keeps_within_the_bounds_of_a_recording(client: Reckoner) -> None:
    @client.recorded("assistant", action=lambda result: str(len(result)))
    def many() -> Iterator[int]:
        yield from range(10_500)

    assert len(list(many())) == 10_500
    assert client.flush()
    assert Decision.objects.get().action == "10000"


def test_many_asynchronous_ones_are_read_at_the_same_time_each_by_several_tasks(client: Reckoner) -> None:
    @client.recorded("assistant")
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split():
            await asyncio.sleep(0)
            yield upper(word)

    async def read(text: str) -> list[str]:
        reading = words(text)
        first = await asyncio.create_task(anext(reading))  # type: ignore[arg-type]
        assert current_recording() is None
        return [first] + [word async for word in reading]

    async def main() -> list[list[str]]:
        return await asyncio.gather(*(read(text) for text in ("a b c", "d e")))

    assert asyncio.run(main()) == [["A", "B", "C"], ["D", "E"]]
    assert client.flush()
    assert results_by_action() == {"ABC": ["A", "B", "C"], "DE": ["D", "E"]}


def test_a_tool_that_streams_is_one_call(client: Reckoner) -> None:
    @tool
    def search(words: str) -> Iterator[str]:
        for word in words.split():
            yield upper(word)

    @tool
    async def watch(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    async def read() -> list[int]:
        return [number async for number in watch(3)]

    with client.recording("assistant", {"query": "x"}, policy_name="own") as recording:
        assert list(search("a b")) == ["A", "B"]
        assert asyncio.run(read()) == [0, 1, 2]
        recording.act("done")
    assert list(search("outside")) == ["OUTSIDE"]
    held = (letter for letter in "ab")
    assert tool(lambda: held)() is held
    assert client.flush()
    # A call is noted when it ends, those inside it before.
    assert results_of(Decision.objects.get()) == ["A", "B", "AB", [0, 1, 2]]
