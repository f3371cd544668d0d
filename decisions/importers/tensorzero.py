"""TensorZero's tables as JSON lines: ChatInference, JsonInference, ModelInference and the four of feedback.

An inference is a decision of the agent named like its function, in its episode. A row's columns tell its table. Checked
against TensorZero's documentation only, not against a running one.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Sequence
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
    canonical,
    count_of,
    from_text,
    make_decision,
    make_feedback,
    make_step,
    number_of,
    object_of,
    text_of,
    try_read,
)
from decisions.importers.spill import LARGEST_GROUP, Spill, Spilled
from workspaces.storage.ids import uuid7_time

INFERENCE, MODEL_INFERENCE, FEEDBACK = "inference", "model_inference", "feedback"


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    """Inferences with all that is about them; then feedback whose target is an episode, or in no file here."""
    with Spill() as spill:
        yield from spill.fill(read_json_files(files, reading), _table_of)
        for with_inference in (True, False):
            for _, group in spill.groups():
                if any(row.kind == INFERENCE for row in group) == with_inference:
                    yield from _read_group(group, reading) if with_inference else _read_loose(group, reading)


def _table_of(row: dict[str, Any]) -> tuple[str, str]:
    """The kind of a row, and the inference or episode that it is about."""
    if "function_name" in row and "output" in row and "dataset_name" not in row:
        return INFERENCE, _id(row, "id")
    if "inference_id" in row and "model_name" in row:
        return MODEL_INFERENCE, _id(row, "inference_id")
    if "value" in row and "target_id" in row:
        return FEEDBACK, _id(row, "target_id")
    if "value" in row and "inference_id" in row:
        return FEEDBACK, _id(row, "inference_id")
    raise Refused("the row", "belongs to none of the supported tables; see docs/importing.md")


def _id(row: dict[str, Any], name: str) -> str:
    try:
        return str(uuid.UUID(row.get(name)))
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused(name, f"{row.get(name)!r} is not a UUID") from error


def _moment(row: dict[str, Any], reading: Reading, name: str = "id") -> dt.datetime:
    """The time inside an id: their ids are uuid7."""
    moment = uuid7_time(uuid.UUID(row[name]))
    if moment is None:
        raise Refused(name, "is not a uuid7")
    return reading.moment(moment.isoformat(), name)


def _decision_id(inference: str, reading: Reading) -> uuid.UUID:
    """Follows from the inference's id alone, so that feedback finds it in another import too."""
    moment = uuid7_time(uuid.UUID(inference))
    if moment is None:
        raise Refused("target_id", "is not a uuid7")
    return reading.mint(moment, inference)


def _read_group(group: list[Spilled], reading: Reading) -> Iterator[Found]:
    first = next(row for row in group if row.kind == INFERENCE)
    if len(group) > LARGEST_GROUP:
        yield Refusal(first.place, "id", f"more than {LARGEST_GROUP} rows belong to it")
        return
    calls = [row for row in group if row.kind == MODEL_INFERENCE]
    feedback: list[ImportedFeedback] = []
    for row in group:
        if row.kind == FEEDBACK:
            found = try_read(row.place, _feedback, row, reading)
            if isinstance(found, Refusal):
                yield found
            else:
                feedback.append(found)
    yield try_read(first.place, _decision, first, calls, feedback, reading)


def _read_loose(group: list[Spilled], reading: Reading) -> Iterator[Found]:
    for row in group:
        if row.kind == FEEDBACK:
            yield try_read(row.place, _feedback, row, reading, loose=True)
        else:
            yield Refusal(row.place, "inference_id", "names an inference that is in none of these files")


def _decision(first: Spilled, calls: list[Spilled], feedback: list[ImportedFeedback], reading: Reading) -> Imported:
    row = first.value
    moment = _moment(row, reading)
    output = from_text(row["output"])
    action, completion = _action(output)
    tags = row.get("tags") if isinstance(row.get("tags"), dict) else {}
    parameters = from_text(row.get("inference_params"))
    chat = parameters.get("chat_completion") if isinstance(parameters, dict) else None
    temperature = number_of(chat.get("temperature")) if isinstance(chat, dict) else None
    model = next((call.value["model_name"] for call in calls if isinstance(call.value["model_name"], str)), "")
    decision = make_decision(
        {
            "id": _decision_id(_id(row, "id"), reading),
            "agent": reading.agent_for(row["function_name"], "function_name"),
            "state": as_state(from_text(row.get("input"))),
            "action": action,
            "completion": completion[:LONGEST_TEXT],
            "episode": str(row["episode_id"]) if row.get("episode_id") else None,
            "unit": str((tags or {}).get("user_id") or "")[:LONGEST_NAME] or None,
            "external_id": _id(row, "id"),
            # A variant is what TensorZero experiments with: prompt, model and parameters together.
            "policy_name": reading.policy_for(f"{row.get('variant_name') or ''}@{model}".strip("@")),
            "temperature": temperature or None,
            "latency_ms": number_of(row.get("processing_time_ms")),
            "tokens_in": _total(calls, "input_tokens"),
            "tokens_out": _total(calls, "output_tokens"),
            "observed_at": moment,
        }
    )
    steps = tuple(
        make_step(
            {
                "kind": "llm_call",
                "name": str(call.value["model_name"]),
                "model": str(call.value["model_name"]),
                "external_id": str(call.value.get("id") or ""),
                "arguments": {name: from_text(call.value.get(name)) for name in ("system", "input_messages")},
                "result": from_text(call.value.get("output")),
                "tokens_in": count_of(call.value.get("input_tokens")),
                "tokens_out": count_of(call.value.get("output_tokens")),
                "attributes": {name: call.value.get(name) for name in ("model_provider_name", "finish_reason")},
                "started_at": moment,
                "duration_ms": number_of(call.value.get("response_time_ms")),
            }
        )
        for call in calls
    )
    return Imported(first.place, decision, steps, tuple(feedback), sum(row.size for row in [first, *calls]))


def _total(calls: list[Spilled], name: str) -> int | None:
    counts = [count for call in calls if (count := count_of(call.value.get(name))) is not None]
    return sum(counts) if counts else None


def _action(output: Any) -> tuple[Any, str]:
    """A JSON function's parsed object; a chat function's tool calls, or else its text."""
    if isinstance(output, dict):
        parsed = output.get("parsed")
        return (parsed if parsed is not None else text_of(output.get("raw"))), text_of(output.get("raw") or parsed)
    if not isinstance(output, list):
        raise Refused("output", "is neither content blocks nor an object")
    blocks = [object_of(block, "output") for block in output]
    text = "\n".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    calls = [
        {
            "name": str(block.get("name") or block.get("raw_name")),
            "arguments": _arguments(block),
            **({"id": block["id"]} if block.get("id") else {}),
        }
        for block in blocks
        if block.get("type") == "tool_call"
    ]
    return (calls or text), text if not calls else canonical(output)


def _arguments(block: dict[str, Any]) -> dict[str, Any]:
    found = block.get("arguments")
    found = from_text(block.get("raw_arguments") if found is None else found)
    return found if isinstance(found, dict) else {"arguments": found}


def _feedback(spilled: Spilled, reading: Reading, *, loose: bool = False) -> ImportedFeedback:
    row, place = spilled.value, spilled.place
    target = _id(row, "target_id" if "target_id" in row else "inference_id")
    metric = row.get("metric_name") or ("comment" if "target_id" in row else "demonstration")
    tags = row.get("tags") if isinstance(row.get("tags"), dict) else {}
    author = (tags or {}).get("author") or (tags or {}).get("tensorzero::human_feedback")
    value = row["value"]
    if not isinstance(value, bool | int | float | str):
        raise Refused("value", "is neither a number, a truth value nor text")
    made = make_feedback(
        reading,
        place,
        metric=str(metric),
        value=value,
        observed_at=_moment(row, reading),
        key=_id(row, "id"),
        decision_id=_decision_id(target, reading),
        source="human" if author or metric in {"comment", "demonstration"} else "system",
    )
    return ImportedFeedback(place, made.feedback, target, episode_first=True) if loose else made
