"""ToolBox: its trace files, and its checkpoints as JSON. A pickle is never opened.

A trace is an episode of one decision, with its tool calls and reasoning as steps. In a checkpoint, every question with
its answer is a decision, and every task of its own is one too (`decisions.importers.toolbox_tasks`). The next
checkpoint repeats most of them, and the traces hold them in more detail; such repeats are left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json
from decisions.importers.records import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Found,
    Imported,
    ImportedFeedback,
    Place,
    Reading,
    Record,
    Refusal,
    Refused,
    Repeat,
    count_of,
    ignore_bytes,
    list_of,
    make_decision,
    make_episode,
    make_feedback,
    make_step,
    number_of,
    object_of,
    text_of,
    try_read,
)
from decisions.importers.spill import Spill
from decisions.importers.toolbox_tasks import read_tasks
from decisions.ingest.step_schemas import StepIn
from decisions.models.verdicts import VERDICT

PICKLES = (".pkl", ".pickle")


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    """Traces first, wherever they lie: what a checkpoint repeats of them is left out, not the other way round."""
    with Spill() as spill:
        for file in files:
            if file.suffix.lower() in PICKLES:
                yield Refusal(
                    Place(str(file), 1), "", "is a pickle, and reading a pickle can run code; save it as JSON"
                )
        readable = [file for file in files if file.suffix.lower() not in PICKLES]
        for checkpoints in (False, True):
            # Every file is read twice, and counted as read in the first turn.
            watched = replace(reading, advance=ignore_bytes) if checkpoints else reading
            for file in readable:
                for record in read_json(file, watched):
                    if isinstance(record, Refusal):
                        if not checkpoints:
                            yield record
                    elif _is_checkpoint(record.value) == checkpoints:
                        yield from _read_record(record, reading, spill)


def _is_checkpoint(value: Any) -> bool:
    return isinstance(value, dict) and ("session_data" in value or "task_state" in value)


def _read_record(record: Record, reading: Reading, spill: Spill) -> Iterator[Found]:
    if _is_checkpoint(record.value):
        yield from _read_checkpoint(record, reading, spill)
    else:
        yield try_read(record.place, _read_trace, record, reading, spill)


def _read_trace(record: Record, reading: Reading, spill: Spill) -> Imported | Repeat:
    trace = object_of(record.value, "the trace")
    place = record.place
    for name in ("user_query", "final_response"):
        if not isinstance(trace.get(name), str):
            raise Refused(name, "is missing or not text")
    session = str(trace.get("session_id") or "")
    moment = reading.moment(trace.get("timestamp"), "timestamp")
    key = str(trace.get("trace_id") or "") or f"{session}\0{trace['user_query']}"
    if not spill.first_time("trace", key, moment.isoformat()):
        return Repeat(place)
    # The first checkpoint entry with the same words is this run; the time it notes is another one by a moment.
    spill.add_twin(session, trace["user_query"], trace["final_response"])
    decision_id = reading.mint(moment, key)
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(trace.get("agent_name"), "agent_name"),
            "state": {"query": trace["user_query"]},
            "action": trace["final_response"],
            "completion": trace["final_response"][:LONGEST_TEXT],
            "episode": str(trace.get("trace_id") or decision_id)[:LONGEST_NAME],
            "external_id": str(trace.get("trace_id") or "")[:LONGEST_NAME] or None,
            "policy_name": reading.policy_for(trace.get("model")),
            "latency_ms": number_of(trace.get("execution_duration_ms")) or None,
            "tokens_in": count_of(trace.get("total_tokens_in")),
            "tokens_out": count_of(trace.get("total_tokens_out")),
            "cost": number_of(trace.get("total_cost")),
            "observed_at": moment,
        }
    )
    feedback = _trace_feedback(trace, reading, place, decision_id, moment)
    facts = make_episode(
        decision,
        {
            "session": session,
            "query": trace["user_query"],
            "final_response": trace["final_response"],
            "tasks_created": len(_tasks(trace, "created")),
            "tasks_completed": len(_tasks(trace, "completed")),
            "tasks_failed": len(_tasks(trace, "failed")),
            "llm_calls": count_of(trace.get("llm_calls_count")),
        },
    )
    steps = tuple(_trace_steps(trace, reading, moment))
    return Imported(place, decision, steps, tuple(feedback), record.size, facts)


def _trace_steps(trace: Mapping[str, Any], reading: Reading, moment: dt.datetime) -> Iterator[StepIn]:
    """Reasoning first, then tool calls with times of their own, then tasks."""
    for index, given in enumerate(list_of(trace.get("reasoning_steps"), "reasoning_steps")):
        step = object_of(given, f"reasoning_steps[{index}]")
        yield make_step(
            {
                "kind": "reasoning",
                "reasoning_type": str(step.get("step_type") or "")[:64],
                "content": text_of(step.get("content")),
                "confidence": number_of(step.get("confidence")),
                "insights": _points(step.get("insights")),
                "issues": _points(step.get("issues")),
                "started_at": moment,
            }
        )
    for index, given in enumerate(list_of(trace.get("tool_calls"), "tool_calls")):
        call = object_of(given, f"tool_calls[{index}]")
        at = call.get("timestamp")
        yield make_step(
            {
                "kind": "tool_call",
                "name": str(call.get("tool_name") or ""),
                "arguments": call.get("arguments"),
                "result": call.get("result"),
                "success": call.get("success"),
                "error": text_of(call.get("error")),
                "duration_ms": number_of(call.get("duration_ms")),
                "started_at": reading.moment(at, f"tool_calls[{index}].timestamp") if at else moment,
            }
        )
    for status in ("created", "completed", "failed"):
        for index, given in enumerate(_tasks(trace, status)):
            task = object_of(given, f"tasks_{status}[{index}]")
            yield make_step(
                {
                    "kind": "span",
                    "name": f"task {status}",
                    "success": {"completed": True, "failed": False}.get(status),
                    "error": text_of(task.get("error")) if status == "failed" else "",
                    "attributes": task,
                    "started_at": moment,
                }
            )


def _points(given: Any) -> list[str] | None:
    """Insights and issues as texts, whatever they were written as."""
    points = given if isinstance(given, list) else [] if given in (None, "") else [given]
    return [text_of(point) for point in points] or None


def _tasks(trace: Mapping[str, Any], status: str) -> list[Any]:
    return list_of(trace.get(f"tasks_{status}"), f"tasks_{status}")


def _trace_feedback(
    trace: Mapping[str, Any], reading: Reading, place: Place, decision_id: Any, moment: dt.datetime
) -> list[ImportedFeedback]:
    """The label and the review, each as a metric of its own name; a person's label is the verdict, too."""
    values: dict[str, tuple[Any, str]] = {}
    reviewed = "human" if trace.get("manual_review") else "code"
    label = trace.get("label")
    if label is not None and not isinstance(label, bool):
        raise Refused("label", "is neither true, false nor null")
    values["label"] = (label, reviewed)
    if trace.get("manual_review") and label is not None:
        values[VERDICT] = ("confirmed" if label else "corrected", reviewed)
    values["reward"] = (number_of(trace.get("reward_score")), "code")
    values["review_notes"] = (trace.get("review_notes") or None, reviewed)
    return [
        make_feedback(
            reading,
            place,
            metric=name,
            value=value,
            observed_at=moment,
            key=name,
            decision_id=decision_id,
            source=source,
        )
        for name, (value, source) in values.items()
        if value is not None
    ]


def _read_checkpoint(record: Record, reading: Reading, spill: Spill) -> Iterator[Found]:
    yield from _read_sessions(record, reading, spill)
    yield from read_tasks(record.value, record.place, reading, spill)


def _read_sessions(record: Record, reading: Reading, spill: Spill) -> Iterator[Found]:
    place = record.place
    sessions = record.value.get("session_data") or {}
    if not isinstance(sessions, dict):
        yield Refusal(place, "session_data", "is not an object")
        return
    agent = record.value.get("agent_name") or record.value.get("name")
    for session, info in sessions.items():
        history = info.get("history") if isinstance(info, dict) else None
        if not isinstance(history, list) or any(not isinstance(message, dict) for message in history):
            yield Refusal(place, f"session_data.{session}.history", "is not a list of messages")
            continue
        times: dict[tuple[str, str, str], int] = {}
        for index, question, answer in _pairs(history):
            asked, answered = text_of(question.get("content")), text_of(answer.get("content"))
            told = str(question.get("timestamp") or "")
            # The same words without a time are the same pair again in another checkpoint, but not in one history.
            times[asked, answered, told] = turn = times.get((asked, answered, told), 0) + 1
            first = spill.first_time("pair", session, asked, answered, told, str(turn))
            if not first or spill.take_twin(session, asked, answered):
                yield Repeat(place)
                continue
            name = f"session_data.{session}.history[{index}]"
            yield try_read(place, _pair, reading, place, agent, session, name, (asked, answered, told, turn))


def _pairs(history: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Each message of the user with the next one of the assistant; a question without an answer yet is no decision."""
    asked: tuple[int, dict[str, Any]] | None = None
    for index, message in enumerate(history):
        if message.get("role") == "user" and asked is None:
            asked = (index, message)
        elif message.get("role") == "assistant" and asked is not None:
            yield asked[0], asked[1], message
            asked = None


def _pair(
    reading: Reading, place: Place, agent: Any, session: str, name: str, said: tuple[str, str, str, int]
) -> Imported:
    asked, answered, told, turn = said
    moment = reading.moment(told, f"{name}.timestamp")
    decision_id = reading.mint(moment, "pair", session, asked, answered, str(turn))
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(agent, "agent_name"),
            "state": {"query": asked},
            "action": answered,
            "completion": answered[:LONGEST_TEXT],
            "episode": str(decision_id),
            "policy_name": reading.policy_for(None),
            "observed_at": moment,
        }
    )
    facts = make_episode(decision, {"session": session, "query": asked, "final_response": answered})
    return Imported(place, decision, episode=facts, size=len(asked) + 2 * len(answered) + 1000)
