"""Agents and tools that stream: recorded as they are read, and read as before."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from reckoner_client import Reckoner, current_recording, hook_into_agent, tool

from decisions.models import Decision, Episode, Step

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("assistant", "nothing_went_wrong")]


@tool
def upper(word: str) -> str:
    return word.upper()


def results_of(decision: Decision) -> list[Any]:
    return [step.result for step in Step.objects.filter(decision=decision).order_by("number")]


def only_error() -> str:
    """Of a run that failed before it decided."""
    assert Decision.objects.count() == 0
    assert Episode.objects.count() == 1
    return Step.objects.get(kind="span").error


class TestGenerators:
    def test_what_was_yielded_is_the_action_once_it_has_been_read(self, client: Reckoner) -> None:
        @client.recorded("assistant")
        def words(text: str) -> Iterator[str]:
            for word in text.split():
                yield upper(word) + " "

        assert inspect.isgeneratorfunction(words)
        reading = words("one two")
        assert next(reading) == "ONE "
        assert client.flush()
        assert Decision.objects.count() == 0
        assert list(reading) == ["TWO "]
        assert client.flush()
        decision = Decision.objects.get()
        assert (decision.state, decision.action) == ({"text": "one two"}, "ONE TWO ")
        assert results_of(decision) == ["ONE", "TWO"]

    def test_what_it_returns_or_says_comes_first(self, client: Reckoner) -> None:
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

        assert list(outer()) == ["thinking"]
        assert len(list(makes("made"))) == 4
        assert list(says("said")) == ["never mind"]
        assert client.flush()
        assert {decision.action for decision in Decision.objects.all()} == {"returned", "made", "said"}

    def test_between_its_stretches_nothing_is_current(self, client: Reckoner) -> None:
        """Two are read in turns, and what their reader calls is none of theirs."""

        @client.recorded("assistant")
        def words(text: str) -> Iterator[str]:
            with client.recording("assistant", {"inner": text}, policy_name="own") as inner:
                upper(f"{text} inner")
                yield "a"
                assert current_recording() is inner
                inner.act("x")
            upper(text)
            yield "b"

        with client.recording("assistant", {"text": "reader"}, policy_name="own") as reader:
            for _ in zip(words("first"), words("second"), strict=True):
                upper("reader")
                assert current_recording() is reader
            reader.act("done")
        assert current_recording() is None
        assert client.flush()
        found = {
            decision.state.get("text") or f"{decision.state['inner']} inner": results_of(decision)
            for decision in Decision.objects.all()
        }
        assert found == {
            "first": ["FIRST"], "second": ["SECOND"], "first inner": ["FIRST INNER"],
            "second inner": ["SECOND INNER"], "reader": ["READER", "READER"],
        }  # fmt: skip

    def test_what_is_sent_and_thrown_into_it_arrives(self, client: Reckoner) -> None:
        def echo() -> Generator[str, str, str]:
            heard = ""
            while heard != "end":
                try:
                    heard = yield f"heard {heard}"
                except KeyError as error:
                    yield f"caught {error}"
            return "over"

        def talk(generator: Generator[str, str, str]) -> list[str]:
            said = [next(generator), generator.send("hello"), generator.throw(KeyError("key")), next(generator)]
            with pytest.raises(StopIteration) as stopped:
                generator.send("end")
            return [*said, stopped.value.value]

        assert talk(client.recorded("assistant")(echo)()) == talk(echo())
        assert client.flush()
        assert Decision.objects.get().action == "over"

    def test_its_exception_is_recorded_and_is_its_own(self, client: Reckoner) -> None:
        @client.recorded("assistant")
        def fails() -> Iterator[str]:
            yield "a"
            raise LookupError("no such note")

        reading = fails()
        assert next(reading) == "a"
        with pytest.raises(LookupError) as caught:
            next(reading)
        assert caught.traceback[-1].name == "fails"
        assert client.flush()
        assert only_error() == "LookupError: no such note"

    @pytest.mark.parametrize("leave", ["close", "forget"])
    def test_one_that_is_not_read_to_its_end_decides_nothing(self, leave: str, client: Reckoner) -> None:
        ended = []

        @client.recorded("assistant")
        def words() -> Iterator[str]:
            try:
                yield "a"
                yield "b"
            finally:
                ended.append(current_recording())

        words()  # not even begun: nothing to tell
        reading = words()
        next(reading)
        if leave == "close":
            reading.close()  # type: ignore[attr-defined]
        del reading
        gc.collect()
        assert len(ended) == 1 and ended[0] is not None
        assert client.flush()
        assert only_error() == "GeneratorExit"

    def test_it_keeps_within_the_bounds_of_a_recording(self, client: Reckoner) -> None:
        @client.recorded("assistant", action=lambda result: str(len(result)))
        def many(item: object) -> Iterator[object]:
            for _ in range(1_500):
                yield item

        assert [len(list(many(item))) for item in (1, "x" * 1_000)] == [1_500, 1_500]
        assert client.flush()
        numbers, texts = (int(decision.action) for decision in Decision.objects.order_by("id"))
        assert numbers == 1_000
        assert 100_000 <= texts <= 102_000


class TestAsyncGenerators:
    def test_many_are_read_at_the_same_time_each_by_several_tasks(self, client: Reckoner) -> None:
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

        assert inspect.isasyncgenfunction(words)
        assert asyncio.run(main()) == [["A", "B", "C"], ["D", "E"]]
        assert client.flush()
        found = {decision.action: results_of(decision) for decision in Decision.objects.all()}
        assert found == {"ABC": ["A", "B", "C"], "DE": ["D", "E"]}

    def test_what_is_sent_and_thrown_into_it_arrives(self, client: Reckoner) -> None:
        async def echo() -> Any:
            heard = ""
            while heard != "end":
                try:
                    heard = yield f"heard {heard}"
                except KeyError as error:
                    yield f"caught {error}"

        async def talk(generator: Any) -> list[str]:
            said = [await anext(generator), await generator.asend("hello")]
            said += [await generator.athrow(KeyError("key")), await anext(generator)]
            with pytest.raises(StopAsyncIteration):
                await generator.asend("end")
            return said

        async def both() -> tuple[list[str], list[str]]:
            return await talk(client.recorded("assistant")(echo)()), await talk(echo())

        recorded, plain = asyncio.run(both())
        assert recorded == plain
        assert client.flush()
        assert Decision.objects.get().action == "".join(plain)

    @pytest.mark.parametrize(
        ("end", "error"),
        [("close", "GeneratorExit"), ("cancel", "CancelledError"), ("fail", "LookupError: no such note")],
    )
    def test_one_that_does_not_come_to_its_end_decides_nothing(self, end: str, error: str, client: Reckoner) -> None:
        ended = []

        @client.recorded("assistant")
        async def words() -> AsyncIterator[str]:
            try:
                yield "a"
                if end == "fail":
                    raise LookupError("no such note")
                await asyncio.sleep(600)
                yield "b"
            finally:
                ended.append(current_recording())

        async def main() -> None:
            reading = words()
            assert await anext(reading) == "a"
            if end == "close":
                await reading.aclose()  # type: ignore[attr-defined]
                return
            following = asyncio.ensure_future(anext(reading))
            await asyncio.sleep(0)
            if end == "cancel":
                following.cancel()
            await following

        if end == "close":
            asyncio.run(main())
        else:
            with pytest.raises(asyncio.CancelledError if end == "cancel" else LookupError):
                asyncio.run(main())
        assert len(ended) == 1 and ended[0] is not None
        assert client.flush()
        assert only_error() == error


class TestTools:
    def test_a_tool_that_streams_is_one_call(self, client: Reckoner) -> None:
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


class Streaming:
    """An agent whose `run` reads its own stream."""

    name = "assistant"

    def __init__(self) -> None:
        self.tools = {"upper": lambda word: word.upper()}

    def stream(self, query: str) -> Iterator[str]:
        for word in query.split():
            yield self.tools["upper"](word)

    async def astream(self, query: str) -> AsyncIterator[str]:
        for word in self.stream(query):
            yield word

    def run(self, query: str) -> str:
        return " ".join(self.stream(query))

    def invoke(self, query: str) -> Any:
        return self.stream(query)


class TestHook:
    @pytest.mark.parametrize("method", ["stream", "astream", "run", "invoke"])
    def test_a_run_is_one_recording_whatever_way_it_is_read(self, method: str, client: Reckoner) -> None:
        agent = Streaming()

        def read() -> list[str]:
            if method == "astream":

                async def collect() -> list[str]:
                    return [word async for word in agent.astream("one two")]

                return asyncio.run(collect())
            return [getattr(agent, method)("one two")] if method == "run" else list(getattr(agent, method)("one two"))

        before = read()
        with hook_into_agent(agent, client) as hook:
            assert set(hook.runs) == {"stream", "astream", "run", "invoke"}
            assert inspect.isgeneratorfunction(agent.stream)
            assert inspect.isasyncgenfunction(agent.astream)
            assert read() == before
            assert current_recording() is None
        assert read() == before
        assert client.flush()
        decision = Decision.objects.get()
        assert decision.action == "".join(before)
        assert results_of(decision) == ["ONE", "TWO"]
        assert Episode.objects.get().final_response == decision.action

    def test_runs_that_are_read_in_turns_keep_their_tools_apart(self, client: Reckoner) -> None:
        agents = [Streaming(), Streaming()]
        for agent in agents:
            hook_into_agent(agent, client)
        read = list(zip(*(agent.stream(text) for agent, text in zip(agents, ("a b", "c d"), strict=True)), strict=True))
        assert read == [("A", "C"), ("B", "D")]
        assert client.flush()
        found = {decision.action: results_of(decision) for decision in Decision.objects.all()}
        assert found == {"AB": ["A", "B"], "CD": ["C", "D"]}

    def test_an_agent_that_reads_itself_in_turns_is_two_runs(self, client: Reckoner) -> None:
        agent = Streaming()
        hook_into_agent(agent, client)
        assert list(zip(agent.stream("a b"), agent.stream("c d"), strict=True)) == [("A", "C"), ("B", "D")]
        assert client.flush()
        assert {decision.action for decision in Decision.objects.all()} == {"AB", "CD"}
