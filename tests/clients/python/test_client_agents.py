"""Recordings, the decorator and `hook_into_agent`: what arrives in the ledger, and that agents behave as before."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from reckoner_client import ConfigurationError, Reckoner, Refusal, current_recording, hook_into_agent, tool

from decisions.models import Decision, Episode, Step
from tests.clients.python.small_agent import PLACES, Shout, SmallAgent, ThreadedAgent, UnknownPlace, add

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("assistant", "nothing_went_wrong")]


def steps(**wanted: Any) -> list[Step]:
    return list(Step.objects.filter(**wanted).order_by("number"))


def the_episode() -> Episode:
    return Episode.objects.get()


# Recordings


def test_a_recording_is_a_decision_its_steps_and_an_episode(client: Reckoner) -> None:
    with client.recording(
        "assistant", {"query": "what is 2 + 3"}, policy_name="own", unit="ann", session="monday", query="what is 2 + 3"
    ) as recording:
        assert current_recording() is recording
        recording.reason(
            "It is a sum.", type="analysis", confidence=0.8, insights=["two numbers"], issues=["none stated"]
        )
        with recording.tool("add", {"first": 2, "second": 3}) as call:
            call.result = add(2, 3)
        recording.tool_call("print", {"text": "5"}, result=None, duration_ms=1.5)
        recording.llm_call("tiny", tokens_in=10, tokens_out=3, cost=0.002, duration_ms=40)
        recording.llm_call("tiny", tokens_in=5, tokens_out=1, cost=0.001)
        recording.usage(tasks_created=2, tasks_completed=1, tasks_failed=1)
        recording.act("5", confidence=0.9)
    assert current_recording() is None
    client.record_feedback("verdict", "confirmed", decision_id=recording.id)
    assert client.flush()

    decision = Decision.objects.get()
    assert (decision.id, decision.action, decision.state) == (recording.id, "5", {"query": "what is 2 + 3"})
    assert (decision.policy_name, decision.unit, decision.confidence) == ("own", "ann", 0.9)
    assert (decision.tokens_in, decision.tokens_out, float(decision.cost)) == (15, 4, 0.003)
    assert decision.latency_ms > 0
    thought, sum_of, printed, *models = steps(decision=decision)
    assert (thought.kind, thought.content, thought.reasoning_type) == ("reasoning", "It is a sum.", "analysis")
    assert (thought.confidence, thought.insights, thought.issues) == (0.8, ["two numbers"], ["none stated"])
    assert (sum_of.kind, sum_of.name, sum_of.success) == ("tool_call", "add", True)
    assert (sum_of.arguments, sum_of.result, sum_of.error) == ({"first": 2, "second": 3}, 5, "")
    assert sum_of.duration_ms > 0
    assert (printed.arguments, printed.duration_ms) == ({"text": "5"}, 1.5)
    assert [(step.kind, step.model, step.tokens_in) for step in models] == [
        ("llm_call", "tiny", 10),
        ("llm_call", "tiny", 5),
    ]
    episode = the_episode()
    assert decision.episode == episode
    assert (episode.session, episode.unit, episode.query) == ("monday", "ann", "what is 2 + 3")
    assert (episode.final_response, episode.llm_calls, episode.tokens_in) == ("5", 2, 15)
    assert (episode.tasks_created, episode.tasks_completed, episode.tasks_failed) == (2, 1, 1)
    assert episode.duration_ms == decision.latency_ms
    assert episode.started_at < episode.ended_at


def test_an_exception_is_recorded_and_comes_out_as_it_went_in(client: Reckoner) -> None:
    ours = UnknownPlace("atlantis")
    with pytest.raises(UnknownPlace) as caught, client.recording("assistant", {"query": "atlantis"}) as recording:  # noqa: SIM117
        with recording.tool("look up", {"place": "atlantis"}):
            raise ours
    assert caught.value is ours
    assert client.flush()

    assert Decision.objects.count() == 0  # none was made
    called, run = steps(episode=the_episode())
    assert (called.name, called.success, called.error) == ("look up", False, "UnknownPlace: atlantis")
    assert (run.kind, run.name, run.success, run.error) == ("span", "assistant", False, "UnknownPlace: atlantis")
    assert the_episode().ended_at is not None


def test_a_decision_without_steps_needs_no_episode(client: Reckoner) -> None:
    with client.recording("assistant", {"query": "hello"}, policy_name="own") as recording:
        recording.act("hello yourself")
    assert client.flush()
    assert Decision.objects.get().action == "hello yourself"
    assert Episode.objects.count() == 0


def test_recordings_of_one_named_episode_add_up(client: Reckoner) -> None:
    for turn in range(2):
        with client.recording(
            "assistant", {"query": "q"}, policy_name="own", episode="chat-7", step_number=turn
        ) as one:
            one.llm_call("tiny", tokens_in=10)
            one.act(f"answer {turn}")
    assert client.flush()
    assert [d.step_number for d in Decision.objects.filter(episode=the_episode()).order_by("id")] == [0, 1]
    assert (the_episode().external_id, the_episode().final_response) == ("chat-7", "answer 1")
    # The last turn's number must not stand for the whole: it is left to be summed up.
    assert the_episode().tokens_in is None
    assert len(steps(episode=the_episode())) == 2


def test_nothing_that_is_noted_can_fail_the_host(client: Reckoner, make_client: Any, refusals: list[Refusal]) -> None:
    careless = make_client()
    with careless.recording("assistant", {"query": "q"}, policy_name="own") as recording:
        recording.reason(None)  # type: ignore[arg-type]
        recording.usage(tokens_in="many")  # type: ignore[arg-type]
        recording.llm_call(3)  # type: ignore[arg-type]
        recording.act("done")
    careless.record_decision("assistant", {}, "x", alternatives=7)  # type: ignore[arg-type]
    careless.record_feedback("verdict", object(), decision_id="no id")  # type: ignore[arg-type]
    assert careless.flush()
    assert Decision.objects.get().action == "done"
    assert careless.stats().faults >= 2
    # What is no decision and no feedback is the API's to refuse, and is said.
    assert [refusal.kind for refusal in refusals] == ["decisions", "feedback"]
    refusals.clear()


def test_a_recording_keeps_within_its_bounds(client: Reckoner) -> None:
    with client.recording("assistant", {"query": "q"}, policy_name="own") as recording:
        for number in range(1_005):
            recording.tool_call("count", number)
        recording.act("done")
    with client.recording("assistant", {"query": "q"}, policy_name="own") as large:
        large.tool_call("read", {"path": "x"}, result="y" * 1_000_000)
        large.act("read")
    assert client.flush(60)
    assert len(steps(decision=recording.id)) == 1_000
    (read,) = steps(decision=large.id)
    assert read.result.startswith('"yyy')
    assert len(read.result) == 50_000


# The decorator


def test_a_decorated_function_and_its_tools(client: Reckoner) -> None:
    @tool
    def double(number: int) -> int:
        return 2 * number

    @client.recorded("assistant")
    def answer(query: str, times: int = 2) -> str:
        """Answers."""
        return " ".join([query] * double(times))

    assert answer("hey", times=1) == "hey hey"
    assert double(4) == 8  # outside of any recording: nothing is noted
    assert (answer.__name__, answer.__doc__) == ("answer", "Answers.")
    assert client.flush()
    decision = Decision.objects.get()
    assert (decision.state, decision.action) == ({"query": "hey", "times": 1}, "hey hey")
    assert decision.policy_name.endswith("answer")
    (called,) = steps(decision=decision)
    assert (called.name, called.arguments, called.result) == ("double", {"number": 1}, 2)


def test_a_decorated_coroutine_among_others_at_the_same_time(client: Reckoner) -> None:
    @tool
    async def wait(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @client.recorded("assistant", state=lambda name: {"query": name}, action=lambda result: result["text"])
    async def answer(name: str) -> dict[str, str]:
        await wait(name)
        recording = current_recording()
        assert recording is not None
        recording.reason(f"for {name}")
        return {"text": await wait(name.upper())}

    async def main() -> list[dict[str, str]]:
        return await asyncio.gather(*(answer(name) for name in "abc"))

    assert inspect.iscoroutinefunction(answer)
    assert asyncio.run(main()) == [{"text": "A"}, {"text": "B"}, {"text": "C"}]
    assert client.flush()
    for decision in Decision.objects.all():
        name = decision.state["query"]
        assert decision.action == name.upper()
        assert [step.result or step.content for step in steps(decision=decision)] == [name, f"for {name}", name.upper()]
    assert Decision.objects.count() == 3


def test_a_decorated_function_s_exception_is_its_own(client: Reckoner) -> None:
    @client.recorded("assistant")
    def fail(query: str) -> str:
        raise UnknownPlace(query)

    @client.recorded("assistant", state=lambda: 1 / 0, action=lambda result: 1 / 0)  # type: ignore[arg-type, return-value]
    def careless(query: str) -> str:
        return query

    with pytest.raises(UnknownPlace) as caught:
        fail("atlantis")
    assert caught.traceback[-1].name == "fail"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'query'"):
        fail()  # type: ignore[call-arg]
    assert client.flush()
    assert Decision.objects.count() == 0
    assert {step.error for step in steps()} == {
        "UnknownPlace: atlantis",
        "TypeError: " + next(s.error for s in steps() if s.error.startswith("TypeError")).removeprefix("TypeError: "),
    }


# hook_into_agent


def test_a_hooked_agent_s_run_is_recorded_with_its_tools(client: Reckoner) -> None:
    agent = SmallAgent()
    hook = hook_into_agent(agent, client, tools=["remember"], unit="ann")
    assert hook.runs == ("run", "a_run")
    assert hook.tools == ("remember", "arun_function", "add", "look up", "shout")

    assert agent.run("add 2 3; look up paris", loud=True) == "5, FRANCE"
    assert client.flush()
    decision = Decision.objects.get()
    assert decision.agent.slug == "assistant"
    assert (decision.state, decision.action) == ({"query": "add 2 3; look up paris", "loud": True}, "5, FRANCE")
    assert (decision.policy_name, decision.unit) == ("SmallAgent", "ann")
    assert [(step.name, step.arguments, step.result, step.success) for step in steps(decision=decision)] == [
        ("add", {"function_name": "add", "kwargs": {"first": 2, "second": 3}}, 5, True),
        ("look up", {"function_name": "look up", "kwargs": {"place": "paris"}}, "France", True),
        ("shout", {"text": "5, France"}, "5, FRANCE", True),
        ("remember", {"answer": "5, FRANCE"}, 1, True),
    ]
    assert the_episode().query == "add 2 3; look up paris"
    assert the_episode().final_response == "5, FRANCE"


def test_a_hooked_agent_s_exception_is_recorded_and_passes(client: Reckoner) -> None:
    agent = SmallAgent()
    hook_into_agent(agent, client)
    with pytest.raises(UnknownPlace) as caught:
        asyncio.run(agent.a_run("look up paris; look up atlantis"))
    assert caught.value.args == ("atlantis",)
    assert client.flush()
    assert Decision.objects.count() == 0
    first, second, run = steps(episode=the_episode())
    assert (first.result, first.success) == ("France", True)
    assert (second.result, second.success, second.error) == (None, False, "UnknownPlace: atlantis")
    assert (run.kind, run.success, run.error) == ("span", False, "UnknownPlace: atlantis")


def test_a_cancelled_run_is_recorded_and_stays_cancelled(client: Reckoner) -> None:
    class Sleeper:
        name = "assistant"

        async def run(self, query: str) -> None:
            await asyncio.sleep(3600)

    agent = Sleeper()
    hook_into_agent(agent, client)

    async def main() -> None:
        task = asyncio.create_task(agent.run("sleep"))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert client.flush()
    assert [step.error for step in steps()] == ["CancelledError"]


def test_a_hooked_agent_looks_and_behaves_as_before(client: Reckoner) -> None:
    agent, plain = SmallAgent(), SmallAgent()
    shout = agent.tools["shout"]
    with hook_into_agent(agent, client, tools=["remember"]):
        assert isinstance(agent, SmallAgent)
        assert (type(agent).__name__, type(agent).__module__) == (SmallAgent.__name__, SmallAgent.__module__)
        for name in ("run", "a_run", "arun_function"):
            now, before = getattr(agent, name), getattr(plain, name)
            assert inspect.signature(now) == inspect.signature(before)
            assert inspect.iscoroutinefunction(now) == inspect.iscoroutinefunction(before)
            assert (now.__name__, now.__doc__, now.__self__) == (before.__name__, before.__doc__, agent)
        hooked = agent.tools["shout"]
        assert isinstance(hooked, Shout)
        assert (hooked.name, hooked.description, hooked) == ("shout", "In capitals", shout)
        assert hooked("a") == "A"
        assert (shout.calls, hooked.calls) == (1, 1)
        hooked.calls = 7
        assert shout.calls == 7
        assert agent.tools["add"](1, 2) == 3
        assert plain.run("add 1 1") == "2"  # another object of the class is not hooked
        assert SmallAgent.__subclasses__() != []
        with pytest.raises(TypeError):
            agent.run()  # type: ignore[call-arg]
    # As if nothing had been.
    assert type(agent) is SmallAgent
    assert vars(agent) == vars(plain) | {"tools": agent.tools, "answered": agent.answered}
    assert agent.tools["add"] is add
    assert agent.tools["shout"] is shout
    assert agent.run("add 1 1") == "2"
    assert client.flush()
    assert Decision.objects.count() == 0


def test_copies_and_pickles_are_of_the_agent_itself(client: Reckoner) -> None:
    agent = SmallAgent()
    hook_into_agent(agent, client, tools=["remember"], containers=())
    for other in (copy.copy(agent), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert type(other) is SmallAgent
        other.answered = 40
        assert other.run("add 1 1") == "2"
        assert (other.answered, agent.answered) == (41, 0)
    assert client.flush()
    assert Decision.objects.count() == 0


def test_tools_in_a_pool_of_threads_belong_to_the_run_under_way(client: Reckoner) -> None:
    agent = ThreadedAgent([add])
    hook_into_agent(agent, client, name="assistant", action=lambda total: f"{total:g}")
    assert agent.run([1.0, 2.0, 3.0]) == 9.0
    assert client.flush()
    assert Decision.objects.get().action == "9"
    assert sorted(step.arguments["first"] for step in steps(name="add")) == [1.0, 2.0, 3.0]


def test_agents_that_run_at_the_same_time_keep_their_tools_apart(client: Reckoner) -> None:
    agent = SmallAgent()
    hook_into_agent(agent, client)

    async def main() -> list[str]:
        return await asyncio.gather(*(agent.a_run(f"add {n} {n}; add {n} 0") for n in range(5)))

    assert asyncio.run(main()) == ["0, 0", "2, 1", "4, 2", "6, 3", "8, 4"]
    threads = [threading.Thread(target=agent.run, args=(f"add {n} {n}; add {n} 0",)) for n in range(5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.flush()
    assert Decision.objects.count() == 8
    for decision in Decision.objects.all():
        wanted = [float(number) for number in decision.action.split(", ")]
        assert [step.result for step in steps(decision=decision)] == wanted


def test_agents_that_share_tools_and_one_that_calls_another(client: Reckoner) -> None:
    shared = {"add": add}
    inner, outer = SmallAgent(), SmallAgent()
    inner.tools, outer.tools = shared, shared
    hook_into_agent(inner, client, session="both")
    hook_into_agent(outer, client, session="both")
    outer.tools["ask"] = inner.a_run

    async def asking(query: str) -> str:
        return str(await outer.arun_function("ask", query=query))

    outer_run = hook_into_agent(type("Asker", (), {"name": "assistant", "run": staticmethod(asking)})(), client)
    assert outer_run.runs == ("run",)
    assert inner.run("add 1 2") == "3"
    assert outer.run("add 3 4") == "7"
    assert client.flush()
    for decision in Decision.objects.all():
        assert [step.result for step in steps(decision=decision)] == [float(decision.action)]
    assert Decision.objects.count() == 2
    assert set(Episode.objects.values_list("session", flat=True)) == {"both"}


class Frozen(pydantic.BaseModel):
    """Of a class that takes no new attributes."""

    model_config = pydantic.ConfigDict(frozen=True)
    name: str = "assistant"
    greeting: str = "hello"

    def run(self, query: str) -> str:
        return f"{self.greeting} {query}"


@dataclass(frozen=True)
class FrozenData:
    name: str = "assistant"

    def run(self, query: str) -> str:
        return query


class Slotted:
    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = "assistant"

    def run(self, query: str) -> str:
        return query


class Registered:
    """Its class hears of every subclass, and must not hear of the client's."""

    heard: list[type] = []
    name = "assistant"

    def __init_subclass__(cls, *, wanted: int, **kwargs: Any) -> None:
        cls.heard.append(cls)

    def run(self, query: str) -> str:
        return query


@pytest.mark.parametrize("kind", [Frozen, FrozenData, Slotted, Registered])
def test_objects_of_all_kinds_of_classes_can_be_hooked_and_let_go(kind: Any, client: Reckoner) -> None:
    agent = kind()
    expected = agent.run("there")
    with hook_into_agent(agent, client):
        assert agent.run("there") == expected
    assert agent.run("there") == expected
    assert type(agent) is kind
    assert Registered.heard == []
    assert client.flush()
    assert Decision.objects.get().action == expected


def test_a_method_that_returns_a_coroutine_and_a_tuple_of_tools(client: Reckoner) -> None:
    class Delegating:
        name = "assistant"

        def __init__(self) -> None:
            self.tools = (add, lambda text: look(text))

        def run(self, query: str) -> Any:
            return self._run(query)

        async def _run(self, query: str) -> str:
            return f"{self.tools[0](1, 2)} {await self.tools[1](query)}"

    async def look(text: str) -> str:
        await asyncio.sleep(0)
        return PLACES[text]

    agent = Delegating()
    hook_into_agent(agent, client)
    assert isinstance(agent.tools, tuple)
    assert asyncio.run(agent.run("rome")) == "3 Italy"
    assert client.flush()
    assert [step.result for step in steps(decision=Decision.objects.get())] == [3, "Italy"]


def test_what_cannot_be_hooked_is_said_and_left_as_it_was(client: Reckoner) -> None:
    with pytest.raises(ConfigurationError, match="name its run_methods"):
        hook_into_agent(object(), client)
    agent = SmallAgent()
    with pytest.raises(ConfigurationError, match="has no tool forget"):
        hook_into_agent(agent, client, tools=["forget"])
    assert type(agent) is SmallAgent
    assert vars(agent).keys() == vars(SmallAgent()).keys()
    twice = hook_into_agent(agent, client)
    with pytest.raises(ConfigurationError):
        hook_into_agent(agent, client)
    twice.unhook()
    assert type(agent) is SmallAgent


def test_a_server_that_is_away_does_not_change_what_an_agent_does(make_client: Any) -> None:
    nobody = make_client("http://127.0.0.1:9", exit_seconds=0)
    agent = SmallAgent()
    hook_into_agent(agent, nobody)
    assert agent.run("add 2 3; look up rome") == "5, Italy"
    with pytest.raises(UnknownPlace):
        agent.run("look up atlantis")
    assert nobody.stats().acknowledged == 0
    assert nobody.stats().pending > 0


def test_ids_of_steps_are_their_own_and_sent_twice_they_are_one(
    client: Reckoner, gateway: Any, make_client: Any
) -> None:
    lossy = make_client(gateway.url)
    gateway.plan.extend(["forward", "lose the answer", "forward", "lose the answer"])
    with lossy.recording("assistant", {"query": "q"}, policy_name="own") as recording:
        recording.tool_call("add", {"first": 1})
        recording.act("done")
    assert lossy.flush(60)
    assert lossy.stats().retries == 2
    assert (Decision.objects.count(), Step.objects.count(), Episode.objects.count()) == (1, 1, 1)
    assert isinstance(Step.objects.get().id, uuid.UUID)
    assert msgspec.json.decode(gateway.seen[1][2])[0]["id"] == str(Step.objects.get().id)
