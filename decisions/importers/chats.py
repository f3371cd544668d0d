"""The chats that `export_training_data` and the notes app's `/training/export` write: one decision a line.

The user's message is the state, the assistant's {action, reasoning, confidence}; `metadata` says when, of which kind of
agent, and what was observed. Rewards are not taken over: the ledger calculates its own from the feedback. The system
prompt is that of the agent's version, which an agent that has to be made gets from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    return read_each(read_json_files(files, reading), lambda record: read_line(record, reading))


def read_line(record: Record, reading: Reading) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    line = object_of(record.value, "the line")
    said = {
        message.get("role"): message.get("content")
        for message in (object_of(one, "messages") for one in list_of(line.get("messages"), "messages"))
    }
    for role in ("user", "assistant"):
        if not isinstance(said.get(role), str):
            raise Refused("messages", f"has no text of the {role}")
    told = from_text(said["assistant"])
    if not isinstance(told, dict) or "action" not in told:
        raise Refused("messages", "the assistant's message is not {action, reasoning, confidence}")
    about = object_of(line.get("metadata") or {}, "metadata")
    moment = reading.moment(about.get("createdAt"), "metadata.createdAt")
    own = about.get("decisionId")
    decision_id = reading.mint(moment, str(own) if own else canonical(line))
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(about.get("agentType"), "metadata.agentType"),
            "state": as_state(from_text(said["user"])),
            "action": told["action"],
            "reasoning": told.get("reasoning"),
            "confidence": told.get("confidence"),
            "policy_name": reading.policy_for(None),
            "observed_at": moment,
            "item_ref": about.get("itemId"),
            "project_ref": about.get("opusId"),
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
    system = said.get("system") if about.get("systemPrompt") is True else None
    return [
        Imported(record.place, decision, (), feedback, record.size, system=system if isinstance(system, str) else "")
    ]
