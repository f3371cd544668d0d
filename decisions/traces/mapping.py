"""Interprets a span: always a step, and a decision or feedback where it holds one. PURE.

Nothing here depends on other spans or on the ledger, so a span means the same whenever and however often it arrives.
What needs the whole trace (an episode's question and answer) is read from the recorded steps.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from decisions.answer_ids import MESSAGE, read_decision_id
from decisions.traces import names
from decisions.traces.chats import find_ending, messages_in, messages_out, tools_of
from decisions.traces.messages import find_question, only_argument, parse_text, unflatten
from decisions.traces.spans import Span, moment
from workspaces.storage.ids import uuid7_of
from workspaces.storage.storable import is_storable, read_json

LONGEST_NAME = 200
LONGEST_SLUG = 63
LARGEST_COUNT = 2**31 - 1
LARGEST_COST = 999_999.0
SOURCES = {"HUMAN": "human", "LLM": "llm", "CODE": "code"}
STEP_KINDS = ("tool_call", "llm_call", "reasoning", "span")
ID_IN_BODY = re.compile(r'"id" ?: ?"((?:chatcmpl-|resp_)[0-9a-f]{32})"')
"""The id of an answer in its body, which stands on the span as text. Inside of what was said quotes are escaped."""


@dataclass(frozen=True, slots=True)
class MappedStep:
    id: uuid.UUID
    kind: str
    name: str
    external_id: str
    parent: str | None
    started_at: dt.datetime
    duration_ms: float
    success: bool
    error: str = ""
    arguments: Any = None
    result: Any = None
    reasoning_type: str = ""
    content: str = ""
    confidence: float | None = None
    insights: Any = None
    issues: Any = None
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MappedDecision:
    """`actions` holds the action as each kind of action space would write it: which one counts is the agent's to say.
    `explicit`: the sender called it a decision, so that one which cannot be kept is reported as an error. Otherwise it
    is a model call, which is a decision only where its answer is an action of its agent.

    `propensity` is what the sender said that it drew with. A model's own probability of an option is its `confidence`:
    whether it was drawn or the best was taken, the span does not say.
    """

    id: uuid.UUID
    agent: str
    explicit: bool
    state: Mapping[str, Any]
    actions: Mapping[str, Any]
    policy: str
    options: tuple[str, ...] | None = None
    propensity: float | None = None
    temperature: float | None = None
    epsilon: float | None = None
    finish_reason: Any = None
    confidence: float | None = None
    reasoning: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class MappedFeedback:
    """On the span's decision, or on the whole episode."""

    id: uuid.UUID
    metric: str
    value: float | str
    source: str
    observed_at: dt.datetime
    on_episode: bool


@dataclass(frozen=True, slots=True)
class MappedSpan:
    """`answer`: of a model's call, the decision's id that the answer's own id is, if the gateway gave it."""

    trace: str
    agent: str
    step: MappedStep
    decisions: tuple[MappedDecision, ...] = ()
    feedback: tuple[MappedFeedback, ...] = ()
    session: str = ""
    unit: str = ""
    answer: uuid.UUID | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)


def is_of_an_agent(span: Span) -> bool:
    """Does it tell of an agent? A trace holds HTTP and SQL as well, which is not the ledger's."""
    return any(name.startswith(names.TELLING) for name in span.attributes) or any(
        event.name.startswith(names.TELLING) for event in span.events
    )


def read_span(span: Span) -> MappedSpan:
    given = span.attributes
    kind = _kind(span)
    agent = slug_of(names.find_value(given, "agent") or names.find_value(span.resource, "service") or "")
    decisions = tuple(_decisions(span, kind, agent))
    return MappedSpan(
        trace=span.trace_id,
        agent=agent,
        step=_step(span, kind),
        decisions=decisions,
        feedback=tuple(_feedback(span)),
        session=_text(names.find_value(given, "session")),
        unit=_text(names.find_value(given, "unit")),
        answer=None if kind != "llm_call" or any(one.explicit for one in decisions) else _answer_id(given),
        tasks={
            name: count
            for name in ("tasks_created", "tasks_completed", "tasks_failed")
            if (count := _count(names.find_value(given, name))) is not None
        },
    )


def with_agent(mapped: MappedSpan, span: Span, agent: str) -> MappedSpan:
    """The same of another agent, which the span does not name itself."""
    decisions = tuple(_decisions(span, mapped.step.kind, agent)) if mapped.decisions else ()
    return replace(mapped, agent=agent, decisions=decisions)


def slug_of(name: Any) -> str:
    """An agent's slug from any name: `Notes app (eu)` → `notes-app-eu`."""
    return re.sub(r"[^a-z0-9]+", "-", str(name).lower())[:LONGEST_SLUG].strip("-") or "unknown"


def derive_id(span: Span, *more: str) -> uuid.UUID:
    """The id that follows from the span's start and its ids: the same whenever it is sent."""
    return uuid7_of(span.started_at, "/".join((span.trace_id, span.span_id, *more)).encode())


def _kind(span: Span) -> str:
    given = span.attributes
    if (own := names.find_value(given, "step_kind")) in STEP_KINDS:
        return str(own)
    said = [names.find_value(given, field) for field in ("span_kind", "operation")]
    marks = {mark for mark in said if isinstance(mark, str)}
    if marks & names.TOOL_CALLS:
        return "tool_call"
    if marks & names.LLM_CALLS:
        return "llm_call"
    # Before gen_ai.operation.name there was only the system and the model.
    if not marks and "gen_ai.system" in given and "gen_ai.request.model" in given:
        return "llm_call"
    return "span"


def _step(span: Span, kind: str) -> MappedStep:
    given = span.attributes
    arguments = parse_text(names.find_value(given, "input"))
    result = _unquoted(parse_text(names.find_value(given, "output")))
    reasoning = _text(names.find_value(given, "reasoning"), None)
    name: Any = span.name
    if kind == "tool_call":
        name = names.find_value(given, "tool") or span.name
        arguments = only_argument(parse_text(names.find_value(given, "arguments")))
        result = _unquoted(parse_text(names.find_value(given, "result")))
    elif kind == "llm_call":
        said_in, said_out = messages_in(span), messages_out(span)
        if said_in:
            arguments = {"messages": said_in}
            if (tools := tools_of(span)) is not None:
                arguments["tools"] = tools
        if said_out:
            result = said_out[0]["content"] if set(said_out[0]) == {"role", "content"} else said_out[0]
            reasoning = reasoning or "\n".join(m["reasoning"] for m in said_out if "reasoning" in m)
    elif arguments is None and result is None and (said_in := messages_in(span)):
        # An agent's span may have messages as a model's call has them.
        arguments, result = {"messages": said_in}, messages_out(span) or None
    if result is None:
        result = next((found for p in names.FLAT_RESULTS if (found := unflatten(given, p)) is not None), None)
    attributes = names.unmapped_attributes(given)
    for kept in ("span_kind", "operation", "provider", "tool_call_id", "agent"):
        if (value := names.find_value(given, kept)) is not None:
            attributes[kept] = value
    confidence = _number(names.find_value(given, "confidence"))
    return MappedStep(
        id=derive_id(span),
        kind=kind,
        name=_text(name),
        external_id=span.span_id,
        parent=span.parent_id or None,
        started_at=span.started_at,
        duration_ms=span.duration_ms,
        success=not span.failed,
        error=_error(span) if span.failed else "",
        arguments=arguments,
        result=result,
        reasoning_type=_text(names.find_value(given, "reasoning_type"))[:64],
        content=reasoning,
        confidence=confidence if confidence is not None and 0 <= confidence <= 1 else None,
        insights=parse_text(names.find_value(given, "insights")),
        issues=parse_text(names.find_value(given, "issues")),
        model=_text(names.find_value(given, "model")),
        tokens_in=_count(names.find_value(given, "tokens_in")),
        tokens_out=_count(names.find_value(given, "tokens_out")),
        cost=_cost(names.find_value(given, "cost")),
        attributes=attributes,
    )


def _unquoted(value: Any) -> Any:
    """What was answered in words, where they stand in JSON's quotes."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        try:
            read = read_json(value)
        except ValueError:
            return value
        return read if is_storable(read) else value
    return value


def _answer_id(given: Mapping[str, Any]) -> uuid.UUID | None:
    said = names.find_value(given, "response_id")
    if said is None and isinstance(body := names.find_value(given, "output"), str):
        found = ID_IN_BODY.search(body)
        said = found[1] if found else None
    if not isinstance(said, str) or said.startswith(MESSAGE):
        return None
    try:
        answer = read_decision_id(said)
    except ValueError:
        return None
    return answer if answer.version == 7 else None  # another server's ids look like ours


def _error(span: Span) -> str:
    """The exception that ended the span, else the status' message."""
    for event in reversed(span.events):
        if event.name == "exception":
            parts = (event.attributes.get("exception.type"), event.attributes.get("exception.message"))
            if said := ": ".join(str(part) for part in parts if part):
                return said
    return span.message or "failed without giving a reason"


# Decisions


def _decisions(span: Span, kind: str, agent: str) -> Iterator[MappedDecision]:
    given = span.attributes
    if span.failed:
        return
    if names.find_value(given, "action") is not None:
        yield _own_decision(span, agent)
    elif names.find_value(given, "span_kind") == "DECISION":
        yield from _model_decisions(span, agent)
    elif kind == "llm_call" and (said_out := messages_out(span)):
        said_in = messages_in(span)
        state: dict[str, Any] = {"input": find_question(said_in), "messages": said_in}
        if (tools := tools_of(span)) is not None:
            state["tools"] = tools
        answer = said_out[0]
        actions: dict[str, Any] = {}
        if text := answer.get("content"):
            actions = {"text": text, "choice": text.strip(), "structured": parse_text(text)}
        if calls := answer.get("tool_calls"):
            actions["tool_calls"] = [_as_made(call) for call in calls]
        if actions:
            yield MappedDecision(
                id=derive_id(span),
                agent=agent,
                explicit=False,
                state=state,
                actions=actions,
                policy=_text(names.find_value(given, "model")) or "unknown",
                finish_reason=_ending(span),
                reasoning=answer.get("reasoning"),
                unit=_text(names.find_value(given, "unit")) or None,
            )


def _ending(span: Span) -> Any:
    """Why the answer ended, in the sender's word: what the span says of it, or else the answer itself."""
    found = parse_text(names.find_value(span.attributes, "finish_reason"))
    return (found[0] if isinstance(found, list) and found else found) or find_ending(span)


def _as_made(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a message as the actions of chats have it."""
    made = {"name": call["name"], "arguments": call["arguments"]}
    return made | {"id": call["id"]} if call.get("id") else made


def _own_decision(span: Span, agent: str) -> MappedDecision:
    """Said in our own words (`reckoner.*`)."""
    given = span.attributes
    action = parse_text(names.find_value(given, "action"))
    options = parse_text(names.find_value(given, "options"))
    state = parse_text(names.find_value(given, "state") or names.find_value(given, "input"))
    return MappedDecision(
        id=derive_id(span),
        agent=agent,
        explicit=True,
        state=state if isinstance(state, dict) else {"input": "" if state is None else state},
        actions=dict.fromkeys(("choice", "ranking", "structured", "text", "tool_calls"), action),
        policy=_text(names.find_value(given, "model")) or "unknown",
        options=tuple(str(option) for option in options) if isinstance(options, list) else None,
        propensity=_number(names.find_value(given, "propensity")),
        temperature=_number(names.find_value(given, "temperature")),
        epsilon=_number(names.find_value(given, "epsilon")),
        confidence=_number(names.find_value(given, "confidence")),
        reasoning=_text(names.find_value(given, "reasoning"), None) or None,
        unit=_text(names.find_value(given, "unit")) or None,
    )


def _model_decisions(span: Span, agent: str) -> Iterator[MappedDecision]:
    """A decision model's call: one state, and a decision for each of its questions with options to choose from.

    Request and answer are those of the System One shape, which OpenInference's DECISION spans carry as JSON. Each
    question decides something of its own, so each is an agent of its own, `<agent>-<question>`.
    """
    request = parse_text(names.find_value(span.attributes, "input"))
    answer = parse_text(names.find_value(span.attributes, "output"))
    if not (isinstance(request, dict) and isinstance(answer, dict)):
        return
    questions, answers = request.get("questions"), answer.get("answers")
    if not (isinstance(questions, dict) and isinstance(answers, dict)):
        return
    for name, question in questions.items():
        said = answers.get(name)
        if not (isinstance(question, dict) and isinstance(said, dict)):
            continue
        options, action, confidence = _answer(question, said)
        if action is None or action not in options:
            continue
        text = question.get("question") or question.get("instructions") or name
        yield MappedDecision(
            id=derive_id(span, name),
            agent=slug_of(f"{agent}-{name}"),
            explicit=True,
            state={"input": request.get("state"), "question": text},
            actions={"choice": action},
            policy=_text(names.find_value(span.attributes, "model")) or "unknown",
            options=options,
            confidence=confidence,
            unit=_text(names.find_value(span.attributes, "unit")) or None,
        )


def _answer(question: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None, float | None]:
    """Options, the one chosen, and the model's probability of it, where it says."""
    given = next((said[key] for key in ("answer", "choice", "noul", "score", "level") if key in said), None)
    offered = next((question[key] for key in ("criteria", "options", "levels") if key in question), None)
    if question.get("type") in ("noul", "predicate"):
        options: tuple[str, ...] = ("true", "false")
        given = str(given).lower() if isinstance(given, bool) else None
    elif isinstance(offered, dict | list):
        options = tuple(
            str(one.get("name") or one.get("value")) if isinstance(one, dict) else str(one) for one in offered
        )
        given = None if given is None else str(given)
    else:
        return (), None, None
    probabilities = said.get("probabilities")
    share = probabilities.get(given) if isinstance(probabilities, dict) else said.get("probability")
    share = _number(share)
    return options, given, share if share is not None and 0 <= share <= 1 else None


# Feedback


def _feedback(span: Span) -> Iterator[MappedFeedback]:
    """Evaluations: events of the GenAI conventions, and what OpenInference writes on the span."""
    for number, event in enumerate(span.events):
        if event.name == names.EVALUATION_EVENT:
            given = event.attributes
            value = _score(given.get("gen_ai.evaluation.score.value"), given.get("gen_ai.evaluation.score.label"))
            metric = _text(given.get("gen_ai.evaluation.name"))[:64]
            if metric and value is not None:
                at = moment(event.at_ns) if event.at_ns else span.ended_at
                yield MappedFeedback(derive_id(span, f"event {number}"), metric, value, "llm", at, on_episode=False)
    for on_episode, prefixes in ((False, names.EVALUATIONS), (True, names.TRACE_EVALUATIONS)):
        for prefix in prefixes:
            found = unflatten(span.attributes, prefix)
            for number, one in enumerate(found if isinstance(found, list) else ()):
                inner = one.get("evaluation", one.get("annotation")) if isinstance(one, dict) else None
                if not isinstance(inner, dict):
                    continue
                metric, value = _text(inner.get("name"))[:64], _score(inner.get("score"), inner.get("label"))
                source = SOURCES.get(str(inner.get("annotator_kind")).upper(), "llm")
                if metric and value is not None:
                    key = derive_id(span, f"{prefix} {number}")
                    yield MappedFeedback(key, metric, value, source, span.ended_at, on_episode)


def _score(value: Any, label: Any) -> float | str | None:
    number = _number(value)
    return number if number is not None else _text(label, None) or None


# Values as they come


def _text(value: Any, longest: int | None = LONGEST_NAME) -> str:
    text = "" if value is None else str(value)
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number <= LARGEST_COUNT else None


def _cost(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= LARGEST_COST else None
