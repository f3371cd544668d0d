"""Langfuse's blob storage export as JSON lines or JSON: traces, observations (both kinds) and scores, in one folder.

A trace is a decision: its input and output come from the trace's own row, or else from its root observation. Every
other observation is a step, every score feedback. A row's columns tell its table. Checked against Langfuse's
documentation only, not against a running one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json_files
from decisions.importers.records import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Found,
    Imported,
    ImportedFeedback,
    Reading,
    Refusal,
    Refused,
    as_state,
    count_of,
    from_text,
    make_decision,
    make_episode,
    make_feedback,
    make_step,
    number_of,
    text_of,
    try_read,
)
from decisions.importers.spill import LARGEST_GROUP, Spill, Spilled
from decisions.ingest.step_schemas import StepIn

TRACE, OBSERVATION, SCORE = "trace", "observation", "score"
SOURCES = {"ANNOTATION": "human", "EVAL": "llm", "API": "system"}


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    with Spill() as spill:
        yield from spill.fill(read_json_files(files, reading), _table_of)
        for trace_id, group in spill.groups():
            yield from _read_group(trace_id, group, reading)


def _table_of(row: dict[str, Any]) -> tuple[str, str]:
    if "data_type" in row and "name" in row and "value" in row:
        if not row.get("trace_id"):
            raise Refused("trace_id", "is missing: a score of a session or a run belongs to no decision")
        return SCORE, str(row["trace_id"])
    if "start_time" in row and "trace_id" in row:
        return OBSERVATION, str(row["trace_id"])
    if "timestamp" in row and "id" in row and ("input" in row or "output" in row):
        return TRACE, str(row["id"])
    raise Refused("the row", "belongs to none of the supported tables; see docs/importing.md")


def _read_group(trace_id: str, group: list[Spilled], reading: Reading) -> Iterator[Found]:
    if len(group) > LARGEST_GROUP:
        yield Refusal(group[0].place, "trace_id", f"the trace has more than {LARGEST_GROUP} rows")
        return
    # An export of both kinds holds each observation twice: the one with the trace's own fields is kept.
    observations: dict[str, Spilled] = {}
    for row in group:
        if row.kind == OBSERVATION:
            key = str(row.value.get("id"))
            if key not in observations or "trace_name" in row.value:
                observations[key] = row
    trace = next((row for row in group if row.kind == TRACE), None)
    scores = [row for row in group if row.kind == SCORE]
    ordered = sorted(
        observations.values(), key=lambda row: (str(row.value.get("start_time")), str(row.value.get("id")))
    )
    if trace is None and not ordered:
        for row in scores:
            yield Refusal(row.place, "trace_id", "the trace is in none of these files; import a folder that has both")
        return
    first = trace or ordered[0]
    root = next((row for row in ordered if not row.value.get("parent_observation_id")), None)
    if trace is None and root is None:
        yield Refusal(first.place, "parent_observation_id", "the trace has no root observation in these files")
        return
    found = try_read(first.place, _decision, trace_id, trace, root, ordered, reading)
    if isinstance(found, Refusal):
        yield found
        return
    assert isinstance(found.decision.id, uuid.UUID)
    feedback: list[ImportedFeedback] = []
    for row in scores:
        made = try_read(row.place, _score, row, found.decision.id, reading)
        if isinstance(made, Refusal):
            yield made
        else:
            feedback.append(made)
    yield replace(found, feedback=tuple(feedback))


def _decision(
    trace_id: str, trace: Spilled | None, root: Spilled | None, ordered: list[Spilled], reading: Reading
) -> Imported:
    own = trace.value if trace else {}
    top = root.value if root else {}
    source = own if trace else top
    moment = reading.moment(own.get("timestamp") or top.get("start_time"), "timestamp" if trace else "start_time")
    output = from_text(source.get("output") or top.get("output") or None)
    session, user = own.get("session_id") or top.get("session_id"), own.get("user_id") or top.get("user_id")
    name = own.get("name") or top.get("trace_name") or top.get("name")
    model = next((row.value["provided_model_name"] for row in ordered if row.value.get("provided_model_name")), None)
    seconds = number_of(top.get("latency"))
    decision = make_decision(
        {
            "id": reading.mint(moment, trace_id),
            "agent": reading.agent_for(name, "name"),
            "state": as_state(from_text(source.get("input") or top.get("input") or None)),
            "action": "" if output is None else output,
            "completion": text_of(output)[:LONGEST_TEXT],
            "episode": trace_id[:LONGEST_NAME],
            "unit": str(user)[:LONGEST_NAME] if user else None,
            "external_id": trace_id[:LONGEST_NAME],
            "policy_name": reading.policy_for(model),
            "latency_ms": None if seconds is None else seconds * 1000,
            "tokens_in": _total(ordered, "usage_details", "input"),
            "tokens_out": _total(ordered, "usage_details", "output"),
            "cost": sum(number_of(row.value.get("total_cost")) or 0.0 for row in ordered) or None,
            "observed_at": moment,
        }
    )
    steps = tuple(_step(row, reading) for row in ordered if trace is not None or row is not root)
    rows = [*ordered, *([trace] if trace else [])]
    facts = make_episode(decision, {"session": session})
    return Imported((trace or root or ordered[0]).place, decision, steps, (), sum(row.size for row in rows), facts)


def _total(ordered: list[Spilled], name: str, key: str) -> int | None:
    """Over all observations; None where none of them says."""
    details = [from_text(row.value.get(name)) for row in ordered]
    counts = [count_of(found.get(key)) for found in details if isinstance(found, dict)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _step(row: Spilled, reading: Reading) -> StepIn:
    value = row.value
    started = reading.moment(value.get("start_time"), "start_time")
    ended = reading.moment(value["end_time"], "end_time") if value.get("end_time") else None
    kind = str(value.get("type") or "")
    usage = from_text(value.get("usage_details"))
    usage = usage if isinstance(usage, dict) else {}
    failed = value.get("level") == "ERROR"
    return make_step(
        {
            "kind": {"TOOL": "tool_call", "GENERATION": "llm_call"}.get(kind, "span"),
            "name": str(value.get("name") or ""),
            "external_id": str(value.get("id") or ""),
            "parent": value.get("parent_observation_id") or None,
            "arguments": from_text(value.get("input")),
            "result": from_text(value.get("output")),
            "success": False if failed else None,
            "error": (text_of(value.get("status_message")) or "failed") if failed else "",
            "model": str(value.get("provided_model_name") or ""),
            "tokens_in": count_of(usage.get("input")),
            "tokens_out": count_of(usage.get("output")),
            "cost": number_of(value.get("total_cost")),
            "attributes": {"type": kind}
            | {
                name: from_text(value[name])
                for name in ("model_parameters", "tool_calls", "metadata")
                if value.get(name)
            },
            "started_at": started,
            "duration_ms": (ended - started).total_seconds() * 1000 if ended is not None and ended >= started else None,
        }
    )


def _score(row: Spilled, decision_id: uuid.UUID, reading: Reading) -> ImportedFeedback:
    score = row.value
    kind = score["data_type"]
    number = number_of(score["value"])
    if kind in {"CATEGORICAL", "TEXT"}:
        value: Any = score.get("string_value")
    elif kind == "BOOLEAN":
        value = None if number is None else bool(number)
    else:
        value = number
    if value is None:
        raise Refused("value", f"has no value of type {kind}")
    return make_feedback(
        reading,
        row.place,
        metric=str(score["name"]),
        value=value,
        observed_at=reading.moment(score.get("timestamp"), "timestamp"),
        key=str(score.get("id")),
        decision_id=decision_id,
        source=SOURCES.get(str(score.get("source")), "system"),
    )
