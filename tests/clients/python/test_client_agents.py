"""Recordings, the decorator and `hook_into_agent`: what arrives in the ledger, and that agents behave as before."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from reckoner_client import ConfigurationError, Reckoner, Refused, current_recording, hook_into_agent, tool

from decisions.models import Decision, Episode, Step
from tests.clients.python.small_agent import SmallAgent, UnknownPlace, add

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
        recording.reason("A sum.", type="analysis", confidence=0.8, insights=["two numbers"], issues=["none stated"])
        with recording.tool("add", {"first": 2, "second": 3}) as call:
            call.result = add(2, 3)
        recording.llm_call("tiny", tokens_in=10, tokens_out=3, cost=0.002, duration_ms=40)
        recording.llm_call("tiny", tokens_in=5, tokens_out=1, cost=0.001)
        recording.usage(tasks_created=2, tasks_completed=1, tasks_failed=1)
        recording.act("5", confidence=0.9)
    assert current_recording() is None
    with client.recording("assistant", {"query": "hello"}, policy_name="own") as plain:
        plain.act("hello yourself")
    assert client.flush()

    assert Decision.objects.get(id=plain.id).episode is None  # there is nothing to say of one
    decision = Decision.objects.get(id=recording.id)
    assert (decision.action, decision.state) == ("5", {"query": "what is 2 + 3"})
    assert (decision.policy_name, decision.unit, decision.confidence) == ("own", "ann", 0.9)
    assert (decision.tokens_in, decision.tokens_out, float(decision.cost)) == (15, 4, 0.003)
    thought, sum_of, *models = steps(decision=decision)
    assert (thought.kind, thought.content, thought.reasoning_type) == ("reasoning", "A sum.", "analysis")
    assert (thought.confidence, thought.insights, thought.issues) == (0.8, ["two numbers"], ["none stated"])
    assert (sum_of.kind, sum_of.name, sum_of.success, sum_of.error) == ("tool_call", "add", True, "")
    assert (sum_of.arguments, sum_of.result) == ({"first": 2, "second": 3}, 5)
    told = [(step.kind, step.model, step.tokens_in) for step in models]
    assert told == [("llm_call", "tiny", 10), ("llm_call", "tiny", 5)]
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


def test_nothing_that_is_noted_can_fail_the_host(make_client: Any, refusals: list[Refused]) -> None:
    careless = make_client()
    with careless.recording("assistant", {"query": "q"}, policy_name="own") as recording:
        recording.reason(None)
        recording.usage(tokens_in="many")
        recording.llm_call(3)
        recording.act("done")
    careless.record_decision("assistant", {}, "x", alternatives=7)
    careless.record_feedback("verdict", object(), decision_id="no id")
    assert careless.flush()
    assert Decision.objects.get().action == "done"
    assert careless.stats().faults >= 3
    # What is no decision and no feedback is the API's to refuse, and is said.
    assert [refusal.kind for refusal in refusals] == ["decisions", "feedback"]
    refusals.clear()


def test_a_recording_keeps_within_its_bounds(client: Reckoner) -> None:
    with client.recording("assistant", {"query": "q"}, policy_name="own") as recording:
        with recording.tool("read", {"path": "x"}) as call:
            call.result = "y" * 1_000_000
        for number in range(1_005):
            recording.reason(str(number))
        recording.act("done")
    assert client.flush(60)
    read, *counted = steps(decision=recording.id)
    assert len(counted) == 999
    assert read.result.startswith('"yyy')
    assert len(read.result) == 50_000


# The decorator


def test_a_decorated_coroutine_and_its_tools_among_others_at_the_same_time(client: Reckoner) -> None:
    @tool
    async def wait(name: str, times: int = 2) -> str:
        await asyncio.sleep(0)
        return name * times

    @client.recorded("assistant", state=lambda name: {"query": name}, action=lambda result: result["text"])
    async def answer(name: str) -> dict[str, str]:
        """Answers."""
        recording = current_recording()
        assert recording is not None
        recording.reason(f"for {name}")
        return {"text": await wait(name.upper(), times=1)}

    async def main() -> list[dict[str, str]]:
        return await asyncio.gather(*(answer(name) for name in "abc"))

    assert inspect.iscoroutinefunction(answer)
    assert (answer.__name__, answer.__doc__) == ("answer", "Answers.")
    assert asyncio.run(main()) == [{"text": "A"}, {"text": "B"}, {"text": "C"}]
    assert asyncio.run(wait("x")) == "xx"  # outside of any recording: nothing is noted
    assert client.flush()
    assert Decision.objects.count() == 3
    for decision in Decision.objects.all():
        name = decision.state["query"]
        assert decision.action == name.upper()
        assert decision.policy_name.endswith("answer")
        thought, called = steps(decision=decision)
        assert thought.content == f"for {name}"
        assert (called.name, called.arguments, called.result) == (
            "wait",
            {"name": name.upper(), "times": 1},
            name.upper(),
        )


def test_a_decorated_function_s_exception_is_its_own(client: Reckoner, make_client: Any) -> None:
    @client.recorded("assistant")
    def fail(query: str) -> str:
        raise UnknownPlace(query)

    careless = make_client()

    @careless.recorded("assistant", state=lambda: 1 / 0, action=lambda result: 1 / 0)
    def answer(query: str) -> str:
        return query

    with pytest.raises(UnknownPlace) as caught:
        fail("atlantis")
    assert caught.traceback[-1].name == "fail"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'query'"):
        fail()  # type: ignore[call-arg]
    assert answer("the host's own functions fail, and the answer comes back") != ""
    assert client.flush()
    assert careless.stats().faults == 2
    assert Decision.objects.count() == 0
    first, second = sorted(step.error for step in steps())
    assert (first.partition(":")[0], second) == ("TypeError", "UnknownPlace: atlantis")


# hook_into_agent


def test_a_hooked_agent_s_run_is_recorded_with_its_tools(client: Reckoner) -> None:
    agent = SmallAgent()
    hook = hook_into_agent(agent, client, unit="ann")
    assert hook.runs == ("run", "a_run")
    assert hook.tools == ("arun_function",)

    assert agent.run("add 2 3; look up paris", loud=True) == "5, FRANCE"
    assert client.flush()
    decision = Decision.objects.get()
    assert decision.agent.slug == "assistant"
    assert (decision.state, decision.action) == ({"query": "add 2 3; look up paris", "loud": True}, "5, FRANCE")
    assert (decision.policy_name, decision.unit) == ("SmallAgent", "ann")
    assert [(step.name, step.arguments, step.result, step.success) for step in steps(decision=decision)] == [
        ("add", {"first": 2, "second": 3}, 5, True),
        ("look up", {"place": "paris"}, "France", True),
        ("shout", {"text": "5, France"}, "5, FRANCE", True),
    ]
    assert (the_episode().query, the_episode().final_response) == ("add 2 3; look up paris", "5, FRANCE")


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_a_hooked_agent_s_exception_is_recorded_and_passes(end: str, client: Reckoner) -> None:
    agent = SmallAgent()
    if end == "cancel":
        agent.tools["look up"] = lambda place: asyncio.sleep(3600)
    hook_into_agent(agent, client, action=lambda result: f"made of {result}")

    async def main() -> None:
        task = asyncio.create_task(agent.a_run("add 1 2; look up atlantis"))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(UnknownPlace if end == "fail" else asyncio.CancelledError):
        asyncio.run(main())
    assert client.flush()
    assert Decision.objects.count() == 0
    error = "UnknownPlace: atlantis" if end == "fail" else "CancelledError"
    first, second, run = steps(episode=the_episode())
    assert (first.result, first.success) == (3, True)
    assert (second.result, second.success, second.error) == (None, False, error)
    assert (run.kind, run.success, run.error) == ("span", False, error)


def test_a_hooked_agent_behaves_as_before_and_is_let_go(client: Reckoner) -> None:
    agent, plain = SmallAgent(), SmallAgent()
    before = vars(agent).copy()
    with hook_into_agent(agent, client):
        for name in ("run", "a_run", "arun_function"):
            now, was = getattr(agent, name), getattr(plain, name)
            assert inspect.signature(now) == inspect.signature(was)
            assert inspect.iscoroutinefunction(now) == inspect.iscoroutinefunction(was)
            assert (now.__name__, now.__doc__) == (was.__name__, was.__doc__)
        assert plain.run("add 1 1") == "2"  # another object of the class is not hooked
        with pytest.raises(TypeError):
            agent.run()  # type: ignore[call-arg]
        with pytest.raises(ConfigurationError, match="name its run_methods"):
            hook_into_agent(agent, client)  # it is hooked already
    assert vars(agent) == before
    assert agent.run("add 1 1") == "2"
    assert client.flush()
    assert Decision.objects.count() == 0


@dataclass(frozen=True)
class Frozen:
    name: str = "assistant"

    def ask(self, query: str) -> str:
        return query


class Slotted:
    __slots__ = ()

    def ask(self, query: str) -> str:
        return query


def test_what_cannot_be_hooked_is_said_and_left_as_it_was(client: Reckoner) -> None:
    for nothing in (object(), Slotted()):
        with pytest.raises(ConfigurationError, match="name its run_methods"):
            hook_into_agent(nothing, client, run_methods=["ask"])
    frozen = Frozen()
    hook_into_agent(frozen, client, run_methods=["ask"], state=lambda query: {"asked": query})
    assert frozen.ask("there") == "there"
    assert client.flush()
    assert Decision.objects.get().state == {"asked": "there"}
