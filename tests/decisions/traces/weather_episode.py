"""The episode of the agents in clients/, as every client's spans must tell it."""

from __future__ import annotations

from decisions.models import Decision, Episode, Step

QUESTION, ANSWER = "How warm is it in Oslo?", "It is 18 degrees."
CALL = {"name": "weather", "arguments": {"city": "Oslo"}, "id": "call_1"}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "content": "18 degrees", "tool_call_id": "call_1"},
]


def check_episode(*, agent: str, unit: str = "ann", session: str | None = "monday") -> None:
    """One episode with its question, steps, tool call, answer, unit and two decisions. `session`: None where each run
    has one of its own."""
    episode = Episode.objects.get()
    assert (episode.query, episode.final_response) == (QUESTION, ANSWER)
    assert (episode.agent.slug, episode.unit) == (agent, unit)
    assert bool(episode.session) if session is None else episode.session == session
    calls, [tool] = ([*Step.objects.filter(kind=kind).order_by("id")] for kind in ("llm_call", "tool_call"))
    assert (tool.name, tool.arguments, tool.result, tool.success) == ("weather", {"city": "Oslo"}, "18 degrees", True)
    assert [(call.model, call.tokens_in, call.tokens_out) for call in calls] == [("small", 11, 5)] * 2
    first, second = Decision.objects.order_by("id")
    assert [call.decision_id for call in calls] == [first.id, second.id]
    assert (first.action, second.action) == ([CALL], ANSWER)
    assert (first.state["messages"], second.state["messages"]) == (MESSAGES[:2], MESSAGES)
    assert {first.state["input"], second.state["input"]} == {QUESTION}
    for decision in (first, second):
        assert (decision.agent.slug, decision.unit or "", decision.episode) == (agent, unit, episode)
        [tool] = decision.state["tools"]
        assert "weather" in str(tool) and "city" in str(tool)
