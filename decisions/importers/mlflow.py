"""MLflow traces as `Trace.to_json()` writes them (schema 3), one a line, in a list, or one a file.

The root span is the decision: its inputs the state, its outputs the action. Every span below it is a step, and every
assessment feedback.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json_files
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
    as_state,
    count_of,
    from_text,
    list_of,
    make_decision,
    make_episode,
    make_feedback,
    make_step,
    number_of,
    object_of,
    read_each,
    text_of,
    try_read,
)
from decisions.ingest.step_schemas import StepIn

LONGEST_METRIC = 64
SOURCES = {"HUMAN": "human", "LLM_JUDGE": "llm", "AI_JUDGE": "llm", "CODE": "code"}
# Attributes that have a field of their own, or say what the span's own fields say.
KEPT = {"mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.traceRequestId", "mlflow.chat.tokenUsage"}
MODEL = ("mlflow.llm.model", "mlflow.chat.model", "gen_ai.request.model", "llm.model_name")


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    return read_each(read_json_files(files, reading), lambda record: read_trace(record, reading))


def read_trace(record: Record, reading: Reading) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    trace = object_of(record.value, "the trace")
    if "info" not in trace or "data" not in trace:
        raise Refused("info", "is missing: a trace has info and data, as Trace.to_json() writes it")
    info, data = object_of(trace["info"], "info"), object_of(trace["data"], "data")
    if "trace_id" not in info or "request_time" not in info:
        raise Refused("info.trace_id", "is missing: traces of MLflow 2 are not supported; export them with MLflow 3")
    metadata = info.get("trace_metadata") or {}
    tags = info.get("tags") or {}
    spans: list[Mapping[str, Any]] = [
        object_of(span, "data.spans") for span in list_of(data.get("spans"), "data.spans")
    ]
    roots = [span for span in spans if not span.get("parent_span_id")]
    if len(roots) != 1:
        raise Refused("data.spans", f"has {len(roots)} spans without a parent; expected one")
    root = roots[0]
    moment = reading.moment(info["request_time"], "info.request_time")
    decision_id = reading.mint(moment, str(info["trace_id"]))
    usage = object_of(from_text(metadata.get("mlflow.trace.tokenUsage") or "{}"), "mlflow.trace.tokenUsage")
    cost = object_of(from_text(metadata.get("mlflow.trace.cost") or "{}"), "mlflow.trace.cost")
    outputs = _attribute(root, "mlflow.spanOutputs")
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(tags.get("mlflow.traceName") or root.get("name"), "mlflow.traceName"),
            "state": as_state(_attribute(root, "mlflow.spanInputs")),
            "action": "" if outputs is None else outputs,
            "completion": text_of(outputs)[:LONGEST_TEXT],
            "episode": str(info["trace_id"])[:LONGEST_NAME],
            "unit": str(metadata.get("mlflow.trace.user") or "")[:LONGEST_NAME] or None,
            "external_id": str(info["trace_id"])[:LONGEST_NAME],
            "policy_name": reading.policy_for(_model(spans)),
            "latency_ms": number_of(info.get("execution_duration_ms")),
            "tokens_in": count_of(usage.get("input_tokens")),
            "tokens_out": count_of(usage.get("output_tokens")),
            "cost": number_of(cost.get("total_cost")),
            "observed_at": moment,
        }
    )
    steps = tuple(_step(span, moment) for span in spans if span is not root)
    feedback: list[ImportedFeedback] = []
    others: list[Found] = []
    if error := _error(root):
        feedback.append(_error_feedback(reading, record.place, decision_id, moment, error))
    for index, given in enumerate(list_of(info.get("assessments"), "info.assessments")):
        name = f"info.assessments[{index}]"
        made = try_read(record.place, _assessment, reading, record.place, given, name, decision_id)
        if isinstance(made, Refusal):
            others.append(made)
        elif made is not None:
            feedback.append(made)
    facts = make_episode(decision, {"session": metadata.get("mlflow.trace.session")})
    return [Imported(record.place, decision, steps, tuple(feedback), record.size, facts), *others]


def _attribute(span: Mapping[str, Any], name: str) -> Any:
    """An attribute's value; MLflow keeps each as JSON in a text."""
    attributes = span.get("attributes")
    return from_text(attributes.get(name)) if isinstance(attributes, dict) else None


def _model(spans: Sequence[Mapping[str, Any]]) -> str | None:
    """The model that a span names, the first one that does."""
    for span in spans:
        for name in MODEL:
            if isinstance(model := _attribute(span, name), str) and model:
                return model
    return None


def _error(span: Mapping[str, Any]) -> str:
    status = span.get("status")
    if not isinstance(status, dict) or status.get("code") not in {"STATUS_CODE_ERROR", "ERROR"}:
        return ""
    return text_of(status.get("message")) or "failed"


def _at(nanoseconds: Any, otherwise: dt.datetime) -> dt.datetime:
    if not isinstance(nanoseconds, int) or not 0 <= nanoseconds < 2**63:
        return otherwise
    return dt.datetime.fromtimestamp(nanoseconds // 1000 / 1e6, dt.UTC)


def _step(span: Mapping[str, Any], moment: dt.datetime) -> StepIn:
    kind = text_of(_attribute(span, "mlflow.spanType"))
    begun, ended = span.get("start_time_unix_nano"), span.get("end_time_unix_nano")
    usage = _attribute(span, "mlflow.chat.tokenUsage")
    usage = usage if isinstance(usage, dict) else {}
    return make_step(
        {
            "kind": {"TOOL": "tool_call", "LLM": "llm_call", "CHAT_MODEL": "llm_call"}.get(kind, "span"),
            "name": str(span.get("name") or ""),
            "external_id": span.get("span_id"),
            "parent": span.get("parent_span_id"),
            "arguments": _attribute(span, "mlflow.spanInputs"),
            "result": _attribute(span, "mlflow.spanOutputs"),
            "success": (span.get("status") or {}).get("code") in {"STATUS_CODE_OK", "OK"},
            "error": _error(span),
            "model": _model([span]),
            "tokens_in": count_of(usage.get("input_tokens")),
            "tokens_out": count_of(usage.get("output_tokens")),
            "attributes": {
                name: from_text(value) for name, value in (span.get("attributes") or {}).items() if name not in KEPT
            },
            "started_at": _at(begun, moment),
            "duration_ms": (ended - begun) / 1e6
            if isinstance(begun, int) and isinstance(ended, int) and ended >= begun
            else None,
        }
    )


def _error_feedback(
    reading: Reading, place: Place, decision_id: uuid.UUID, moment: dt.datetime, error: str
) -> ImportedFeedback:
    return make_feedback(
        reading, place, metric="error", value=error, observed_at=moment, key="root", decision_id=decision_id
    )


def _assessment(
    reading: Reading, place: Place, assessment: Any, name: str, decision_id: uuid.UUID
) -> ImportedFeedback | None:
    """Feedback as it is, an expectation under `expectation.NAME`; one that another has overridden is left out."""
    given = object_of(assessment, name)
    if given.get("valid") is False:
        return None
    metric = str(given.get("assessment_name") or "")
    if isinstance(given.get("feedback"), dict):
        if given["feedback"].get("error"):
            raise Refused(f"{name}.feedback.error", "the judge failed, so there is no score")
        value = given["feedback"].get("value")
    elif isinstance(given.get("expectation"), dict):
        expected = given["expectation"]
        value = expected.get("value", (expected.get("serialized_value") or {}).get("value"))
        metric = f"expectation.{metric}"[:LONGEST_METRIC]
    else:
        raise Refused(name, "is neither feedback nor an expectation")
    if value is None:
        raise Refused(f"{name}.value", "is missing")
    source = given.get("source")
    kind = source.get("source_type") if isinstance(source, dict) else None
    return make_feedback(
        reading,
        place,
        metric=metric,
        value=value,
        observed_at=reading.moment(given.get("create_time"), f"{name}.create_time"),
        key=str(given.get("assessment_id") or name),
        decision_id=decision_id,
        source=SOURCES.get(str(kind), "system"),
    )
