"""What `hook_into_agent` records of a call: its session, its tools' arguments, calls at the same time, errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from reckoner_client import ConfigurationError, Reckoner, hook_into_agent

from decisions.models import Decision, Episode, Step
from tools.factories import AgentFactory
from workspaces.access.actors import system
from workspaces.access.services import create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("assistant", "nothing_went_wrong")]


class FlowAgent:
    """As the agent that ToolBox hooks into: a session with each run, tools by name through `arun_function`."""

    name = "assistant"

    def __init__(self) -> None:
        self._tool_registry: dict[str, Any] = {"search": {"func": self.search}}
        self.tools = {"add": lambda first, second=2, *more, sign=1: (first + second + sum(more)) * sign}

    async def search(self, query: str, limit: int = 3, *, deep: bool = False) -> list[str]:
        await asyncio.sleep(0)
        if query == "nothing":
            raise LookupError("nothing is there")
        return [query] * limit

    async def arun_function(self, function_name: str, *args: Any, **kwargs: Any) -> Any:
        tool = self.tools.get(function_name) or self._tool_registry.get(function_name, {}).get("func")
        result = (tool or (lambda *args, **kwargs: "done"))(*args, **kwargs)
        return await result if asyncio.iscoroutine(result) else result

    async def a_run(self, query: str, session_id: str = "default", **kwargs: Any) -> str:
        found = await self.arun_function("search", query, limit=1)
        return f"{query}: {found[0]}"


def steps_of(decision: Decision) -> list[Step]:
    return list(Step.objects.filter(decision=decision).order_by("number"))


def by_query() -> dict[str, Decision]:
    return {decision.state["query"]: decision for decision in Decision.objects.select_related("episode")}


class TestSessions:
    def test_each_call_has_the_session_that_it_names(self, client: Reckoner) -> None:
        agent = FlowAgent()
        hook_into_agent(agent, client)
        for query, given in (("a", {"session_id": "ann"}), ("b", {}), ("c", {"session_id": "bob"})):
            asyncio.run(agent.a_run(query, **given))
        asyncio.run(agent.a_run("d", "ann"))
        assert client.flush()
        found = by_query()
        assert {query: one.episode.session for query, one in found.items()} == {
            "a": "ann",
            "b": "default",
            "c": "bob",
            "d": "ann",
        }
        assert found["a"].state == {"query": "a"}  # the session is not what was asked

    def test_a_call_that_names_none_is_a_session_of_its_own_unless_the_hook_names_one(self, client: Reckoner) -> None:
        class Plain:
            name = "assistant"

            def run(self, query: str) -> str:
                return query

        first, second = Plain(), Plain()
        hook_into_agent(first, client)
        hook_into_agent(second, client, session="monday")
        for agent, query in ((first, "a"), (first, "b"), (second, "c"), (second, "d")):
            agent.run(query)
        assert client.flush()
        found = {query: one.episode.session for query, one in by_query().items()}
        assert (found["c"], found["d"]) == ("monday", "monday")
        assert found["a"] and found["b"] and found["a"] != found["b"]


class TestArguments:
    @pytest.mark.parametrize(
        ("name", "args", "kwargs", "recorded"),
        [
            ("search", ("x",), {}, {"query": "x", "limit": 3, "deep": False}),
            ("search", (), {"query": "x", "deep": True}, {"query": "x", "limit": 3, "deep": True}),
            ("add", (1,), {}, {"first": 1, "second": 2, "sign": 1}),
            ("add", (1, 2, 3, 4), {"sign": -1}, {"first": 1, "second": 2, "more": [3, 4], "sign": -1}),
            ("unknown", (1, "two"), {"three": 3}, {"args": [1, "two"], "three": 3}),
            ("unknown", (), {"args": "mine"}, {"args": "mine"}),
            ("unknown", (), {}, {}),
        ],
    )
    @pytest.mark.quick_cases(2)
    def test_they_are_those_that_the_tool_gets(
        self, name: str, args: Any, kwargs: Any, recorded: Any, client: Reckoner
    ) -> None:
        class Calling(FlowAgent):
            async def a_run(self, query: str, session_id: str = "default", **more: Any) -> str:
                await self.arun_function(name, *args, **kwargs)
                return query

        agent = Calling()
        hook_into_agent(agent, client)
        assert asyncio.run(agent.a_run("q")) == "q"
        assert client.flush()
        [step] = steps_of(Decision.objects.get())
        assert (step.name, step.arguments, step.success) == (name, recorded, True)

    def test_all_in_one_mapping_and_a_method_with_names_of_its_own(self, client: Reckoner) -> None:
        class Other:
            name = "assistant"

            def call_tool(self, tool: str, arguments: dict[str, Any]) -> str:
                return tool

            def use_tool(self, tool: str, word: str, times: int = 2) -> str:
                return word * times

            def run(self, query: str) -> str:
                return self.call_tool("read", {"path": "a"}) + self.use_tool("say", "x")

        agent = Other()
        hook_into_agent(agent, client)
        agent.run("q")
        assert client.flush()
        assert [(step.name, step.arguments) for step in steps_of(Decision.objects.get())] == [
            ("read", {"path": "a"}),
            ("say", {"word": "x", "times": 2}),
        ]

    def test_a_wrong_call_and_a_strange_name_stay_the_host_s(self, make_client: Any) -> None:
        class Strange:
            def __str__(self) -> str:
                raise RuntimeError("no text")

        agent, client = FlowAgent(), make_client()
        hook_into_agent(agent, client)

        async def main() -> None:
            with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
                await agent.arun_function("add", nope=1)
            assert await agent.arun_function(Strange()) == "done"  # type: ignore[arg-type]

        agent.search = lambda query, **more: main()  # type: ignore[method-assign, assignment]
        agent._tool_registry["search"]["func"] = agent.search
        with pytest.raises(TypeError):  # None is not subscriptable: the run's own
            asyncio.run(agent.a_run("q"))
        assert client.flush()
        assert client.stats().faults == 1  # of the strange name
        failed = Step.objects.get(name="add")
        assert (failed.success, failed.arguments) == (False, {"nope": 1})


class TestAtTheSameTime:
    def test_coroutines_threads_and_threads_of_a_run(self, client: Reckoner) -> None:
        agent = FlowAgent()
        hook_into_agent(agent, client)

        async def together() -> None:
            await asyncio.gather(*(agent.a_run(f"c{number}", session_id=f"s{number}") for number in range(5)))

        asyncio.run(together())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: asyncio.run(agent.a_run(f"t{number}", f"s{number}")), range(8)))
        assert client.flush()
        found = by_query()
        assert len(found) == 13
        for query, decision in found.items():
            assert decision.episode.session == f"s{query[1:]}"
            assert [step.arguments["query"] for step in steps_of(decision)] == [query]

    def test_tools_that_run_in_the_agent_s_own_threads_belong_to_the_only_run(self, client: Reckoner) -> None:
        class Pooled:
            name = "assistant"
            both = threading.Barrier(2)

            def call_tool(self, name: str, number: int) -> int:
                return number

            def run(self, query: str) -> str:
                if query == "two":
                    self.both.wait(10)
                with ThreadPoolExecutor(3) as pool:
                    found = list(pool.map(lambda number: self.call_tool("count", number), range(3)))
                if query == "two":
                    self.both.wait(10)
                return str(found)

        agent = Pooled()
        hook_into_agent(agent, client)
        agent.run("one")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(agent.run, ["two", "two"]))
        assert client.flush()
        counted = {query: [] for query in ("one", "two")}
        for decision in Decision.objects.all():
            counted[decision.state["query"]].append(sorted(step.arguments["number"] for step in steps_of(decision)))
        # Whose tools those of two runs at once are, nobody can tell: they are left out and not guessed.
        assert counted == {"one": [[0, 1, 2]], "two": [[], []]}

    def test_runs_inside_runs(self, client: Reckoner) -> None:
        class Outer(FlowAgent):
            def __init__(self, inner: FlowAgent) -> None:
                super().__init__()
                self.inner = inner

            async def a_run(self, query: str, session_id: str = "default", **kwargs: Any) -> str:
                if query == "again":
                    return "inside"
                await self.arun_function("unknown", 1)
                inner = await self.inner.a_run("inner", session_id="its own")
                return f"{inner}, {await self.a_run('again')}"  # type: ignore[func-returns-value]

        inner = FlowAgent()
        outer = Outer(inner)
        hook_into_agent(inner, client)
        hook_into_agent(outer, client)
        assert asyncio.run(outer.a_run("outer")) == "inner: inner, inside"
        assert client.flush()
        found = by_query()
        assert {query: [step.name for step in steps_of(one)] for query, one in found.items()} == {
            "outer": ["unknown"],
            "inner": ["search"],
        }
        assert found["inner"].episode.session == "its own"


class TestErrors:
    def test_a_tool_s_exception_is_a_failure_and_comes_out_as_it_went_in(self, client: Reckoner) -> None:
        agent = FlowAgent()
        hook_into_agent(agent, client)
        with pytest.raises(LookupError, match="nothing is there") as caught:
            asyncio.run(agent.a_run("nothing", session_id="ann"))
        assert caught.traceback[-1].name == "search"
        assert client.flush()
        episode = Episode.objects.get()
        assert (episode.session, Decision.objects.count()) == ("ann", 0)
        called, run = Step.objects.order_by("number")
        assert (called.name, called.success, called.error) == ("search", False, "LookupError: nothing is there")
        assert (run.kind, run.success) == ("span", False)

    def test_streams_of_tools_and_runs(self, client: Reckoner) -> None:
        class Streaming:
            name = "assistant"

            def call_tool(self, name: str, count: int) -> Iterator[int]:
                yield from range(count)

            async def acall_tool(self, name: str, count: int) -> AsyncIterator[int]:
                for number in range(count):
                    yield number

            async def astream(self, query: str, session_id: str) -> AsyncIterator[str]:
                for number in self.call_tool("plain", 2):
                    yield f"{query}{number}"
                async for number in self.acall_tool("async", 1):
                    yield f"{query}{number}"

        agent = Streaming()
        hook_into_agent(agent, client)

        async def read() -> list[str]:
            return [part async for part in agent.astream("q", "ann")]

        assert asyncio.run(read()) == ["q0", "q1", "q0"]
        assert client.flush()
        decision = Decision.objects.get()
        assert (decision.action, decision.episode.session) == ("q0q1q0", "ann")
        assert [(step.name, step.result) for step in steps_of(decision)] == [("plain", [0, 1]), ("async", [0])]

    def test_an_agent_that_does_not_exist_is_said_at_once(
        self, client: Reckoner, make_client: Any, workspace: Any
    ) -> None:
        agent = FlowAgent()
        with pytest.raises(ConfigurationError) as caught:
            hook_into_agent(agent, client, name="asistant")
        assert str(caught.value) == (
            "Reckoner has no agent 'asistant' in the workspace of this key. It has: assistant, filer. Create the agent,"
            " or give the slug of another as name."
        )
        assert "a_run" not in vars(agent)  # nothing stays hooked
        with pytest.raises(ConfigurationError, match="it is None"):
            hook_into_agent(None, client)
        client.check_agent("assistant")
        AgentFactory(workspace=workspace, slug="late")
        client.check_agent("late")

    def test_what_cannot_be_known_is_no_error(self, make_client: Any, workspace: Any) -> None:
        """A program starts while Reckoner is away, and with a key that may only write."""
        token = create_api_key(by=system(workspace), name="writes", scopes=("decisions:write",)).token
        for away in (make_client(url="http://127.0.0.1:9"), make_client(key_=str(token)), make_client(enabled=False)):
            hook_into_agent(FlowAgent(), away, name="asistant").unhook()
