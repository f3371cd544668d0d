"""What spans tell, dialect by dialect, without a database."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.traces import names
from decisions.traces.dialects import langfuse, mlflow, translate_span, vercel
from decisions.traces.mapping import is_of_an_agent, read_span, slug_of
from decisions.traces.messages import MAX_DEPTH, find_answer, find_question, parse_text, unflatten
from decisions.traces.spans import fault_of_span
from tests.decisions.traces.spans_made import DIALECTS, NEW_GENAI, START, make_span
from workspaces.storage.ids import uuid7_time
from workspaces.storage.storable import is_storable

MESSAGES = [{"role": "system", "content": "be short"}, {"role": "user", "content": "which folder?"}]


def _reworded(given: Any, said: str) -> Any:
    """With these words for the question and the answer, also inside of JSON in text."""
    if isinstance(given, dict):
        return {name: _reworded(value, said) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(_reworded(value, said) for value in given)
    if given in ("which folder?", "travel"):
        return said
    return json.dumps(_reworded(json.loads(given), said)) if str(given)[:1] in {"[", "{"} else given


class TestModelCalls:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_every_dialect_says_the_same(self, dialect: str) -> None:
        told = read_span(make_span(**DIALECTS[dialect]))
        step = told.step
        assert (step.kind, step.arguments, step.result) == ("llm_call", {"messages": MESSAGES}, "travel")
        assert (step.tokens_in, step.tokens_out, step.success, step.error) == (11, 3, True, "")
        assert step.model in ("gpt-x", "gpt-x-1")
        assert step.attributes["provider"] == "openai"
        [decision] = told.decisions
        assert decision.state == {"input": "which folder?", "messages": MESSAGES}
        assert (decision.actions["choice"], decision.explicit) == ("travel", False)
        assert (told.agent, decision.agent) == ("notes-app", "notes-app")

    def test_why_an_answer_ended_is_read_where_it_stands(self) -> None:
        answer = {"role": "assistant", "parts": [{"type": "text", "content": "tra"}], "finish_reason": "length"}
        said = NEW_GENAI["attributes"] | {"gen_ai.output.messages": json.dumps([answer])}
        event = ("gen_ai.choice", {"index": 0, "finish_reason": "length", "message": json.dumps({"content": "tra"})})
        flat = {"gen_ai.operation.name": "chat", "gen_ai.completion.0.content": "tra"}
        bodies = (
            ({"choices": [{"message": {"content": "tra"}, "finish_reason": "length"}]}, "length"),
            ({"candidates": [{"content": {"parts": [{"text": "tra"}]}, "finishReason": "MAX_TOKENS"}]}, "MAX_TOKENS"),
            ({"role": "assistant", "content": "tra", "stop_reason": "max_tokens"}, "max_tokens"),
            ({"choices": [{"message": {"content": "tra"}}]}, None),
        )
        for fields, ending in (
            ({"attributes": said}, "length"),
            ({"attributes": said | {"gen_ai.response.finish_reasons": ["stop"]}}, "stop"),
            ({"attributes": {"gen_ai.operation.name": "chat"}, "events": (event,)}, "length"),
            ({"attributes": flat | {"gen_ai.completion.0.finish_reason": "length"}}, "length"),
            ({"attributes": flat}, None),
            *(
                ({"attributes": {"gen_ai.operation.name": "chat", "output.value": json.dumps(body)}}, ending)
                for body, ending in bodies
            ),
        ):
            [decision] = read_span(make_span(**fields)).decisions
            assert decision.finish_reason == ending, fields

    def test_tools_are_asked_for_and_answered(self) -> None:
        call = {"id": "call_1", "name": "search", "arguments": {"query": "invoices"}}
        span = make_span(
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(
                    [
                        {"role": "user", "parts": [{"type": "text", "content": "find invoices"}]},
                        {"role": "assistant", "parts": [{"type": "tool_call", **call}]},
                        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": [17]}]},
                    ]
                ),
                "gen_ai.output.messages": json.dumps(
                    [
                        {
                            "role": "assistant",
                            "parts": [{"type": "reasoning", "content": "one more"}, {"type": "tool_call", **call}],
                        }
                    ]
                ),
                "gen_ai.tool.definitions": json.dumps([{"name": "search"}]),
            }
        )
        told = read_span(span)
        assert told.step.arguments["messages"] == [
            {"role": "user", "content": "find invoices"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "[17]", "tool_call_id": "call_1"},
        ]
        assert told.step.result == {"role": "assistant", "reasoning": "one more", "tool_calls": [call]}
        assert told.step.content == "one more"
        [decision] = told.decisions
        made = {"name": "search", "arguments": {"query": "invoices"}, "id": "call_1"}
        assert decision.actions == {"tool_calls": [made]}
        assert (decision.state["tools"], decision.reasoning) == ([{"name": "search"}], "one more")

    def test_openinference_writes_tool_calls_flat(self) -> None:
        told = read_span(
            make_span(
                attributes={
                    "openinference.span.kind": "LLM",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"query": "x"}',
                    "llm.tools.0.tool.json_schema": '{"name": "search"}',
                }
            )
        )
        [decision] = told.decisions
        assert decision.actions["tool_calls"] == [{"name": "search", "arguments": {"query": "x"}, "id": "c1"}]
        assert decision.state["tools"] == [{"tool": {"json_schema": '{"name": "search"}'}}]

    @pytest.mark.parametrize("said", ['[{"id": 17,  "total": 1.0}]', '{"b": 1, "a": [ ]}', "[1, 2]", '["a"]', "[]"])
    def test_json_that_was_said_stays_as_it_was_said(self, said: str) -> None:
        on_events = {
            "attributes": {"gen_ai.operation.name": "chat"},
            "events": (
                ("gen_ai.content.prompt", {"gen_ai.prompt": "which folder?"}),
                ("gen_ai.content.completion", {"gen_ai.completion": "travel"}),
            ),
        }
        for fields in (*DIALECTS.values(), on_events):
            told = read_span(make_span(**_reworded(fields, said)))
            assert told.step.arguments["messages"][-1] == {"role": "user", "content": said}
            assert (told.step.result, told.decisions[0].actions["text"]) == (said, said)
            assert told.decisions[0].state["input"] == said

    def test_a_content_that_is_json_of_parts_is_read(self) -> None:
        parts = [{"type": "text", "text": "which"}, {"type": "image_url", "image_url": {}}, {"id": 17}]
        attributes = {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": json.dumps(parts[:2]),
            "gen_ai.prompt.1.role": "tool",
            "gen_ai.prompt.1.content": parts,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": json.dumps([{"type": "thinking", "thinking": "hm"}, parts[0]]),
        }
        step = read_span(make_span(attributes=attributes)).step
        assert step.arguments["messages"] == [
            {"role": "user", "content": "which\n[image_url]"},
            {"role": "tool", "content": 'which\n[image_url]\n{"id":17}'},
        ]
        assert step.result == {"role": "assistant", "reasoning": "hm", "content": "which"}

    def test_messages_may_stand_on_an_event(self) -> None:
        written = {name: NEW_GENAI["attributes"][name] for name in ("gen_ai.input.messages", "gen_ai.output.messages")}
        span = make_span(
            attributes={"gen_ai.operation.name": "chat"},
            events=(("gen_ai.client.inference.operation.details", written),),
        )
        assert read_span(span).step.result == "travel"

    def test_without_content_there_is_a_step_and_no_decision(self) -> None:
        told = read_span(make_span(attributes={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}))
        assert (told.step.kind, told.step.tokens_in, told.decisions) == ("llm_call", 7, ())

    def test_a_failed_call_decided_nothing(self) -> None:
        events = (("exception", {"exception.type": "TimeoutError", "exception.message": "too slow"}),)
        told = read_span(make_span(attributes=NEW_GENAI["attributes"], events=events, failed=True, message="ERROR"))
        assert (told.step.success, told.step.error, told.decisions) == (False, "TimeoutError: too slow", ())
        assert read_span(make_span(failed=True, message="no luck")).step.error == "no luck"


class TestTools:
    @pytest.mark.parametrize(
        "attributes",
        [
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": '{"query": "x"}',
                "gen_ai.tool.call.result": "[1, 2]",
            },
            {
                "openinference.span.kind": "TOOL",
                "tool.name": "search",
                "tool_call.id": "c1",
                "input.value": '{"query": "x"}',
                "output.value": "[1, 2]",
            },
        ],
        ids=["GenAI", "OpenInference"],
    )
    def test_a_tool_call_has_name_arguments_and_result(self, attributes: dict[str, Any]) -> None:
        step = read_span(make_span(attributes=attributes)).step
        assert (step.kind, step.name, step.arguments, step.result) == ("tool_call", "search", {"query": "x"}, [1, 2])
        assert step.attributes["tool_call_id"] == "c1"
        assert step.duration_ms == 500.0

    def test_retrieved_documents_are_a_result(self) -> None:
        attributes = {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "invoices",
            "retrieval.documents.0.document.id": "a",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.1.document.id": "b",
        }
        step = read_span(make_span(attributes=attributes)).step
        assert (step.kind, step.arguments) == ("span", "invoices")
        assert step.result == [{"document": {"id": "a", "score": 0.5}}, {"document": {"id": "b"}}]


class TestDecisions:
    def system_one(self, **answers: Any) -> dict[str, Any]:
        questions = {
            "folder": {"type": "choice", "instructions": "Which folder?", "criteria": {"travel": None, "health": None}},
            "urgent": {"type": "noul", "question": "Is it urgent?"},
        }
        return {
            "openinference.span.kind": "DECISION",
            "decision.system": "typesafe",
            "decision.model_name": "jev-1.13.0",
            "decision.token_count.input": 412,
            "input.value": json.dumps({"model": "jev-latest", "state": {"text": "a flight"}, "questions": questions}),
            "output.value": json.dumps({"model": "jev-1.13.0", "answers": answers}),
        }

    def test_a_decision_model_decides_each_of_its_questions(self) -> None:
        told = read_span(
            make_span(
                attributes=self.system_one(
                    folder={"choice": "travel", "probabilities": {"travel": 0.9, "health": 0.1}},
                    urgent={"answer": False, "probability": 0.93},
                    unasked={"answer": True},
                )
            )
        )
        folder, urgent = told.decisions
        assert (folder.agent, folder.options, folder.actions) == (
            "notes-app-folder",
            ("travel", "health"),
            {"choice": "travel"},
        )
        assert (urgent.agent, urgent.options, urgent.actions) == (
            "notes-app-urgent",
            ("true", "false"),
            {"choice": "false"},
        )
        assert folder.state == {"input": {"text": "a flight"}, "question": "Which folder?"}
        # The model's probability is no propensity: whether the answer was drawn, nobody said.
        assert (folder.confidence, folder.propensity, urgent.confidence) == (0.9, None, 0.93)
        assert folder.policy == "jev-1.13.0" and folder.id != urgent.id
        assert told.step.tokens_in == 412

    @pytest.mark.parametrize(
        "said",
        [{"choice": "gardening"}, {"choice": None}, {}, "travel", {"choice": ["travel"]}],
        ids=str,
    )
    def test_an_answer_that_was_not_offered_is_no_decision(self, said: Any) -> None:
        assert read_span(make_span(attributes=self.system_one(folder=said))).decisions == ()

    def test_in_our_own_words_with_propensity(self) -> None:
        told = read_span(
            make_span(
                attributes={
                    "openinference.span.kind": "DECISION",
                    "reckoner.agent": "filer",
                    "reckoner.state": '{"text": "a flight"}',
                    "reckoner.options": ["travel", "health"],
                    "reckoner.action": "travel",
                    "reckoner.propensity": 0.7,
                    "reckoner.epsilon": 0.1,
                    "reckoner.temperature": 0.5,
                    "reckoner.confidence": 0.8,
                    "reckoner.unit": "ann",
                    "gen_ai.request.model": "rules-2",
                }
            )
        )
        [decision] = told.decisions
        assert (decision.agent, decision.state, decision.options) == (
            "filer",
            {"text": "a flight"},
            ("travel", "health"),
        )
        assert (decision.propensity, decision.epsilon, decision.temperature) == (0.7, 0.1, 0.5)
        assert (decision.confidence, decision.unit, decision.policy, decision.explicit) == (0.8, "ann", "rules-2", True)


class TestFeedback:
    def test_an_evaluation_event_is_feedback(self) -> None:
        events = (
            ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": 0.75}),
            ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "tone", "gen_ai.evaluation.score.label": "kind"}),
            ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "empty"}),
        )
        told = read_span(make_span(**{**NEW_GENAI, "events": events}))
        assert [(one.metric, one.value, one.source) for one in told.feedback] == [
            ("helpful", 0.75, "llm"),
            ("tone", "kind", "llm"),
        ]

    def test_evaluations_on_the_span_and_on_its_trace(self) -> None:
        told = read_span(
            make_span(
                attributes={
                    "openinference.span.kind": "AGENT",
                    "evaluations.0.evaluation.name": "right",
                    "evaluations.0.evaluation.score": 1,
                    "evaluations.0.evaluation.annotator_kind": "CODE",
                    "trace.evaluations.0.evaluation.name": "solved",
                    "trace.evaluations.0.evaluation.label": "yes",
                    "trace.evaluations.0.evaluation.annotator_kind": "HUMAN",
                }
            )
        )
        assert [(one.metric, one.value, one.source, one.on_episode) for one in told.feedback] == [
            ("right", 1.0, "code", False),
            ("solved", "yes", "human", True),
        ]


class TestSpans:
    def test_the_id_follows_from_the_start_and_the_ids(self) -> None:
        first = read_span(make_span(7, **NEW_GENAI))
        assert first == read_span(make_span(7, **NEW_GENAI))
        assert uuid7_time(first.step.id) == START
        others = (make_span(8), make_span(7, start=0.001), make_span(7, trace="ab" * 16))
        assert first.step.id not in {read_span(other).step.id for other in others}

    @pytest.mark.parametrize(
        ("attributes", "events", "expected"),
        [
            ({"http.method": "GET"}, (), False),
            ({"gen_ai.operation.name": "chat"}, (), True),
            ({"openinference.span.kind": "CHAIN"}, (), True),
            ({}, (("gen_ai.user.message", {}),), True),
            ({}, (), False),
        ],
        ids=str,
    )
    def test_only_what_tells_of_an_agent_is_read(self, attributes: Any, events: Any, expected: bool) -> None:
        assert is_of_an_agent(make_span(attributes=attributes, events=events)) is expected

    @pytest.mark.parametrize(
        "fields",
        [
            {"trace": "0" * 32},
            {"trace": "zz" * 16},
            {"trace": "ab"},
            {"span_id": 0},
            {"seconds": -1},
            {"start": -9e9},
            {"start": 9e9},
        ],
        ids=str,
    )
    def test_a_span_that_cannot_be_kept_says_why(self, fields: dict[str, Any]) -> None:
        assert fault_of_span(make_span(**fields))
        assert not fault_of_span(make_span())

    def test_the_agent_is_the_span_s_else_the_service_s(self) -> None:
        assert read_span(make_span(attributes={"gen_ai.agent.name": "Filer (EU)"})).agent == "filer-eu"
        assert read_span(make_span(resource={"service.name": "a", "reckoner.agent": "b"})).agent == "b"
        assert read_span(make_span(resource={})).agent == "unknown"
        assert slug_of("…") == "unknown" and len(slug_of("x" * 100)) == 63

    def test_what_the_table_does_not_know_is_kept_beside_it(self) -> None:
        step = read_span(
            make_span(attributes={"openinference.span.kind": "CHAIN", "my.own": [1], "input.value": "x"})
        ).step
        assert step.attributes == {"my.own": [1], "span_kind": "CHAIN"}

    def test_each_name_means_one_thing(self) -> None:
        """Only where a kind of span reads a name in its own way may it stand twice."""
        shared = {"input.value", "output.value", "traceloop.entity.input", "traceloop.entity.output", "reckoner.agent"}
        seen: dict[str, str] = {}
        for field, known in names.NAMES.items():
            for name in known:
                assert name in shared or name not in seen, (name, field, seen[name])
                seen[name] = field


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    [
        *sorted(names.MAPPED),
        *(f"{prefix}0.{rest}" for prefix in names.MAPPED_PREFIXES for rest in ("message.role", "message.content", "x")),
        *(f"{prefix}x" for prefix in names.MAPPED_PREFIXES),
        "evaluations.0.evaluation.name",
        "evaluations.0.evaluation.score",
        *(name for dialect in (vercel, langfuse, mlflow) for name in (dialect.MARK, *dialect.NAMES)),
        *(*vercel.ANSWER, langfuse.LEVEL, langfuse.USAGE, langfuse.COSTS, mlflow.USAGE, mlflow.COST),
    ]
)
OF_SDKS = ("ai.toolCall", "ai.streamText", "ai.generateText.doGenerate", "generation", "tool", "CHAT_MODEL", "ERROR")
WORDS = st.sampled_from(
    ["LLM", "TOOL", "DECISION", "chat", "execute_tool", "AGENT", "tool_call", "reasoning", *OF_SDKS]
)
JSON_TEXT = VALUES.map(lambda value: json.dumps(value))
EVENT_NAMES = st.sampled_from(
    [names.EVALUATION_EVENT, names.DETAILS_EVENT, names.CHOICE_EVENT, names.PROMPT_EVENT, *names.MESSAGE_EVENTS]
)


PARTS = KNOWN | st.sampled_from(["content", "message", "role"])
EVENTS = st.lists(st.tuples(EVENT_NAMES, st.dictionaries(PARTS, VALUES | JSON_TEXT, max_size=4)), max_size=3)


@pytest.mark.slow
@settings(max_examples=150)
@given(attributes=st.dictionaries(KNOWN, VALUES | WORDS | JSON_TEXT, max_size=12), events=EVENTS, failed=st.booleans())
def test_no_attribute_breaks_the_reading(attributes: Any, events: Any, failed: bool) -> None:
    span = translate_span(make_span(attributes=attributes, events=tuple(events), failed=failed))
    told = read_span(span)
    assert told.step.kind in ("tool_call", "llm_call", "reasoning", "span")
    assert len(told.agent) <= 63 and set(told.agent) <= set(string.ascii_lowercase + string.digits + "-")
    assert all(0 <= count <= 2**31 - 1 for count in (told.step.tokens_in, told.step.tokens_out) if count is not None)
    assert told == read_span(span)
    assert is_storable([told.step.arguments, told.step.result, [one.state for one in told.decisions]], MAX_DEPTH + 12)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('{"a": ', '{"a": '),
        ('{"a": "\\u0000"}', '{"a": "\\u0000"}'),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        ('{"a": 99999999999999999999}', '{"a": 99999999999999999999}'),
        ("[" * 40 + "]" * 40, "[" * 40 + "]" * 40),
        (7, 7),
    ],
    ids=str,
)
def test_json_in_text_is_read_where_it_can_be_stored(value: Any, expected: Any) -> None:
    assert parse_text(value) == expected and is_storable(parse_text(value))


def test_flat_names_become_lists_and_objects() -> None:
    flat = {"m.1.a": 1, "m.0.a": 0, "m.10.a": 10, "m.x": 2, "n.0": 3}
    assert unflatten(flat, "m") == {"1": {"a": 1}, "0": {"a": 0}, "10": {"a": 10}, "x": 2}
    assert unflatten({"m.1.a": 1, "m.0.a": 0, "m.10.a": 10}, "m") == [{"a": 0}, {"a": 1}, {"a": 10}]
    assert unflatten({"m.0.a": 0, "m.0.a.b": 1}, "m") == [{"a": 0}]
    assert unflatten({"m": 1}, "m") is None
    deep = ".".join(["m", *("a" for _ in range(MAX_DEPTH * 3))])
    assert unflatten({deep: 1}, "m") is None


@pytest.mark.parametrize(
    ("given", "question", "answer"),
    [
        ("plain", "plain", "plain"),
        ({"messages": MESSAGES}, "which folder?", "which folder?"),
        ('{"query": "invoices"}', "invoices", '{"query": "invoices"}'),
        ('[{"id": 17}, {"id": 1.0}]', '[{"id": 17}, {"id": 1.0}]', '[{"id": 17}, {"id": 1.0}]'),
        ({"answer": "done"}, '{"answer":"done"}', "done"),
        ({"choices": [{"message": {"content": "hi"}}]}, '{"choices":[{"message":{"content":"hi"}}]}', "hi"),
        (None, "", ""),
    ],
    ids=str,
)
def test_question_and_answer_are_found_in_what_went_in_and_out(given: Any, question: str, answer: str) -> None:
    assert (find_question(given), find_answer(given)) == (question, answer)
