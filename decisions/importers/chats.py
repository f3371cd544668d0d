"""The chats that `export_training_data` and the notes app's `/training/export` write: one decision a line.

The user's message is the state, the assistant's {action, reasoning, confidence}; a chat that was served,
`metadata.chat`, is the state itself, and its last message the action. `metadata` says when, of which kind of agent, and
what was observed. Rewards are not taken over: the ledger calculates its own from the feedback. The system
prompt is that of the agent's version, which an agent that has to be made gets from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json_files
from decisions.importers.records import (
    LONGEST_NAME,
    Found,
    Imported,
    Reading,
    Record,
    Refused,
    as_state,
    canonical,
    from_text,
    list_of,
    make_decision,
    make_feedback,
    object_of,
    read_each,
)
from decisions.models.finish_reasons import read_finish_reason
from decisions.traces.messages import find_question


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    return read_each(read_json_files(files, reading), lambda record: read_line(record, reading))


def read_line(record: Record, reading: Reading) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    line = object_of(record.value, "the line")
    about = object_of(line.get("metadata") or {}, "metadata")
    given = [object_of(one, "messages") for one in list_of(line.get("messages"), "messages")]
    said = _read_served(given, line, about) if about.get("chat") is True else _read_said(given, about)
    moment = reading.moment(about.get("createdAt"), "metadata.createdAt")
    own = about.get("decisionId")
    decision_id = reading.mint(moment, str(own) if own else canonical(line))
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(about.get("agentType"), "metadata.agentType"),
            **said.fields,
            "policy_name": reading.policy_for(None),
            "observed_at": moment,
            "item_ref": about.get("itemId"),
            "project_ref": about.get("opusId"),
            "finish_reason": read_finish_reason(about.get("finishReason")),
            "external_id": str(own)[:LONGEST_NAME] if own else None,
        }
    )
    observed: dict[str, Any] = dict(object_of(about.get("outcomeMetrics") or {}, "metadata.outcomeMetrics"))
    if isinstance(verdict := about.get("userFeedback"), str):
        observed["verdict"] = verdict.lower()
    feedback = tuple(
        make_feedback(
            reading,
            record.place,
            metric=metric,
            value=value,
            observed_at=moment,
            key=metric,
            decision_id=decision_id,
            source="human" if metric == "verdict" else "system",
        )
        for metric, value in observed.items()
    )
    return [Imported(record.place, decision, (), feedback, record.size, system=said.system)]


@dataclass(frozen=True, slots=True)
class _Said:
    """What the messages hold: fields of the decision, and the agent's own system prompt."""

    fields: dict[str, Any]
    system: str


def _read_said(given: Sequence[dict[str, Any]], about: dict[str, Any]) -> _Said:
    """Raises Refused."""
    said = {message.get("role"): message.get("content") for message in given}
    for role in ("user", "assistant"):
        if not isinstance(said.get(role), str):
            raise Refused("messages", f"has no text of the {role}")
    told = from_text(said["assistant"])
    if not isinstance(told, dict) or "action" not in told:
        raise Refused("messages", "the assistant's message is not {action, reasoning, confidence}")
    system = said.get("system") if about.get("systemPrompt") is True else None
    known = {name: told.get(name) for name in ("action", "reasoning", "confidence")}
    state = as_state(from_text(said["user"]))
    return _Said({"state": state, **known}, system if isinstance(system, str) else "")


def _read_served(given: Sequence[dict[str, Any]], line: dict[str, Any], about: dict[str, Any]) -> _Said:
    """Raises Refused."""
    if len(given) < 2 or given[-1].get("role") != "assistant":
        raise Refused("messages", "do not end with the assistant's answer to another")
    *before, answer = given
    system = ""
    if about.get("systemPrompt") is True and before[0].get("role") == "system":
        system, before = str(before[0].get("content") or ""), before[1:]
    words, calls = answer.get("content"), list_of(answer.get("tool_calls") or [], "tool_calls")
    tools = {"tools": line["tools"]} if line.get("tools") else {}
    fields: dict[str, Any] = {"action": words or ""}
    if calls or tools:
        fields = {"action": [_read_call(call) for call in calls] or words or "", "completion": words or None}
    if "state" in about:  # the messages are its prompt, and calls stand in the answer's text
        told = from_text(words)
        fields |= {"action": told} if isinstance(told, list) else {}
        state = as_state(about["state"])
    else:
        state = {"input": find_question(before), "messages": before, **tools}
    return _Said({"state": state, **fields, **{name: about.get(name) for name in ("reasoning", "confidence")}}, system)


def _read_call(call: Any) -> dict[str, Any]:
    """Raises Refused."""
    function = object_of(object_of(call, "tool_calls").get("function"), "tool_calls")
    named = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    return {"name": function.get("name"), "arguments": function.get("arguments"), **named}
