"""POST /v1/traces as the OTLP specification has it: encodings, answers, refusals, limits."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.traces.conftest import JSON, PROTOBUF
from tests.decisions.traces.spans_made import NEW_GENAI, as_json, as_protobuf, make_span
from workspaces.http.parsing import MAX_BATCH

pytestmark = pytest.mark.django_db
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}


def partial(answer: Any) -> tuple[int, str]:
    """Rejected spans and the message, in either encoding."""
    if answer["Content-Type"] == JSON:
        found = answer.json().get("partialSuccess", {})
        return int(found.get("rejectedSpans", 0)), found.get("errorMessage", "")
    response = ExportTraceServiceResponse.FromString(answer.content)
    return response.partial_success.rejected_spans, response.partial_success.error_message


def nothing_is_kept() -> bool:
    return not any(model.objects.exists() for model in (Step, Episode, Decision, Feedback, Agent))


class TestAnswers:
    @pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
    def test_both_encodings_say_the_same_and_are_answered_in_kind(self, exporter: Any, media_type: str) -> None:
        attributes = {**TOOL, "gen_ai.tool.call.arguments": '{"q": 1}', "own": [1, 2.5, True, "x", {"a": "b"}]}
        span = make_span(attributes=attributes, events=(("exception", {"exception.message": "no"}),), failed=True)
        answer = exporter.send(span, media_type=media_type)
        assert answer["Content-Type"] == media_type
        assert answer.content == (b"{}" if media_type == JSON else b"")
        step = Step.objects.get()
        assert (step.kind, step.name, step.arguments, step.error) == ("tool_call", "search", {"q": 1}, "no")
        assert step.attributes["own"] == [1, 2.5, True, "x", {"a": "b"}]
        assert (step.external_id, step.duration_ms, step.started_at) == (span.span_id, 500.0, span.started_at)

    @pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
    def test_a_repeat_under_one_key_is_answered_as_the_first_was(self, exporter: Any, media_type: str) -> None:
        body = (as_json if media_type == JSON else as_protobuf)(make_span(attributes=TOOL))
        first, again = (exporter.post(body, media_type, **{"Idempotency-Key": "batch-1"}) for _ in range(2))
        assert (first.status_code, again.status_code, again["Idempotent-Replayed"]) == (200, 200, "true")
        assert (again["Content-Type"], again.content) == (first["Content-Type"], first.content)
        assert again["Content-Type"] == media_type
        assert Step.objects.count() == 1

    def test_the_two_encodings_of_a_span_are_one_span(self, exporter: Any) -> None:
        span = make_span(**NEW_GENAI)
        exporter.send(span)
        assert partial(exporter.send(span, media_type=JSON)) == (0, "")
        assert Step.objects.count() == 1

    def test_an_empty_request_is_a_success(self, exporter: Any) -> None:
        for body, media_type in ((b"", PROTOBUF), (b"{}", JSON), (b'{"resourceSpans": null}', JSON)):
            answer = exporter.post(body, media_type)
            assert (answer.status_code, partial(answer)) == (200, (0, ""))

    @pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
    def test_what_cannot_be_kept_is_counted_and_the_rest_is_kept(self, exporter: Any, media_type: str) -> None:
        good = make_span(1, attributes=TOOL)
        bad = [
            make_span(2, attributes=TOOL, start=-9e8),
            make_span(3, attributes=TOOL, start=9000),
            make_span(4, attributes=TOOL, seconds=-1),
            make_span(0, attributes=TOOL),
        ]
        answer = exporter.send(good, *bad, media_type=media_type)
        count, message = partial(answer)
        assert count == 4
        assert "span 0000000000000002: its start is out of range: 400 days back to 1 hour ahead" in message
        assert "span 0000000000000000: its span id" in message
        assert [step.external_id for step in Step.objects.all()] == [good.span_id]

    def test_a_nul_costs_its_span_only(self, exporter: Any) -> None:
        answer = exporter.send(
            make_span(1, attributes=TOOL),
            make_span(2, attributes={**TOOL, "x": "a\x00b"}),
            make_span(3, attributes=TOOL, name="a\x00b"),
        )
        assert partial(answer)[0] == 2
        assert Step.objects.get().external_id == f"{1:016x}"

    @pytest.mark.parametrize(
        ("good", "bad"),
        [
            ('"stringValue": "cut \\ud83d\\ude00"', '"stringValue": "cut \\ud83d"'),
            ('"stringValue": "\\\\ud83d"', '"stringValue": "\\ude00\\ud83d"'),
            ('"stringValue": "a\\\\u0000"', '"stringValue": "a\\u0000"'),
            ('"intValue": 9223372036854775807', '"intValue": 9223372036854775808'),
            ('"intValue": "-9223372036854775808"', '"intValue": "99999999999999999999999"'),
            ('"doubleValue": 0.5', '"doubleValue": 1e400'),
            ('"stringValue": "7"', '"stringValue": 7'),
        ],
        ids=["cut emoji", "escaped", "NUL", "64 bits", "64 bits as text", "infinite", "another type"],
    )
    @pytest.mark.quick_cases(2)
    def test_one_bad_value_in_json_costs_its_span_only(self, exporter: Any, good: str, bad: str) -> None:
        spans = [make_span(number, attributes={**TOOL, "own": f"value {number}"}) for number in (1, 2, 3)]
        written = as_json(*spans).decode()
        for number, value in ((1, good), (2, bad)):
            written = written.replace(f'"stringValue": "value {number}"', value)
        count, message = partial(exporter.post(written.encode(), JSON))
        assert (count, "span 0000000000000002: " in message) == (1, True)
        assert set(Step.objects.values_list("external_id", flat=True)) == {spans[0].span_id, spans[2].span_id}
        expected = json.loads(f"{{{good}}}")
        assert str(Step.objects.get(external_id=spans[0].span_id).attributes["own"]) in map(str, expected.values())

    def test_text_that_is_not_utf_8_costs_its_span_only(self, exporter: Any) -> None:
        spans = [make_span(number, attributes={**TOOL, "own": f"value {number}"}) for number in (1, 2, 3)]
        written = as_protobuf(*spans).replace(b"value 2", b"value \xff").replace(b"Notes App", b"Notes \xffpp", 1)
        assert partial(exporter.post(written)) == (
            1,
            "span 0000000000000002: it is no span, or holds text that is not UTF-8",
        )
        steps = Step.objects.order_by("external_id")
        assert [(step.external_id, step.attributes["own"]) for step in steps] == [
            (spans[0].span_id, "value 1"),
            (spans[2].span_id, "value 3"),
        ]
        assert Episode.objects.get().agent.slug in ("unknown", "notes-app")

    @pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
    def test_other_spans_of_the_trace_are_left_out_and_told(self, exporter: Any, media_type: str) -> None:
        web = make_span(attributes={"http.request.method": "GET"}, name="GET /")
        told = (0, "1 span about no agent left out: 'GET /'")
        assert partial(exporter.send(web, media_type=media_type)) == told and nothing_is_kept()
        sql = [make_span(number, attributes={"db.system": "x"}, name="SELECT " * 20) for number in range(2, 5)]
        told = (0, f"4 spans about no agent left out: 'GET /', '{('SELECT ' * 20)[:40]}'")
        assert partial(exporter.send(make_span(9, attributes=TOOL), web, *sql, media_type=media_type)) == told
        assert Step.objects.count() == 1

    @pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
    def test_a_body_may_be_compressed(self, exporter: Any, encoding: str) -> None:
        body = as_protobuf(make_span(attributes=TOOL))
        packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding](body)
        assert exporter.post(packed, **{"Content-Encoding": encoding}).status_code == 200
        assert Step.objects.count() == 1

    def test_gzip_may_come_in_parts(self, exporter: Any) -> None:
        body = as_json(make_span(attributes=TOOL))
        packed = gzip.compress(body[:100]) + gzip.compress(body[100:])
        assert exporter.post(packed, JSON, **{"Content-Encoding": "gzip"}).status_code == 200
        assert Step.objects.count() == 1


class TestRefusals:
    def refused(self, answer: Any, status: int) -> str:
        """The message of a refusal; nothing may have been kept."""
        assert answer.status_code == status, answer.content
        assert nothing_is_kept()
        if answer["Content-Type"] == JSON:
            assert set(answer.json()["error"]) == {"code", "message", "fields", "request_id"}
            return str(answer.json()["message"])
        assert answer["Content-Type"] == PROTOBUF
        return str(Status.FromString(answer.content).message)

    @pytest.mark.parametrize(
        ("body", "media_type"),
        [
            (b"\xff\xff\xff", PROTOBUF),
            (b"{", JSON),
            (b"[]", JSON),
            (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 7}]}]}]}', JSON),
            (b'{"resourceSpans": "' + b"[" * 100 + b'"}', JSON),
            (b"[" * 100, JSON),
            (b'{"a": "\\u0000"}', JSON),
            (b"\xff", JSON),
        ],
        ids=str,
    )
    def test_what_is_no_request_is_a_400_in_kind(self, exporter: Any, body: bytes, media_type: str) -> None:
        answer = exporter.post(body, media_type)
        assert answer["Content-Type"] == media_type
        assert self.refused(answer, 400)

    @pytest.mark.parametrize("media_type", ["text/plain", "application/json-seq", ""])
    def test_another_type_is_a_415(self, exporter: Any, media_type: str) -> None:
        self.refused(exporter.post(b"x", media_type), 415)

    def test_another_encoding_is_a_415(self, exporter: Any) -> None:
        message = self.refused(exporter.post(b"x", **{"Content-Encoding": "br"}), 415)
        assert "gzip" in message

    @pytest.mark.parametrize(
        "body",
        [b"no gzip", gzip.compress(b"x" * 1000)[:-4], gzip.compress(b"x") + b"rest"],
        ids=["none", "cut off", "followed"],  # gzip holds the time: workers would collect other names
    )
    def test_broken_gzip_is_a_400(self, exporter: Any, body: bytes) -> None:
        self.refused(exporter.post(body, **{"Content-Encoding": "gzip"}), 400)

    def test_too_large_a_body_is_a_413(self, exporter: Any) -> None:
        self.refused(exporter.post(b"\x00" * (MAX_BATCH + 1)), 413)

    @pytest.mark.parametrize("size", [2 * 1024 * 1024, MAX_BATCH + 1, 50 * 1024 * 1024], ids=str)
    def test_a_bomb_is_a_413(self, exporter: Any, size: int) -> None:
        bomb = gzip.compress(b"\x00" * size, compresslevel=9)
        assert "inflates" in self.refused(exporter.post(bomb, **{"Content-Encoding": "gzip"}), 413)

    def test_too_many_spans_are_a_413(self, exporter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("decisions.traces.otlp.MAX_SPANS", 2)
        spans = [make_span(n, attributes=TOOL) for n in range(1, 4)]
        for media_type, body in ((PROTOBUF, as_protobuf(*spans)), (JSON, as_json(*spans))):
            self.refused(exporter.post(body, media_type), 413)

    def test_nesting_too_deep_costs_the_span(self, exporter: Any) -> None:
        value: Any = 1
        for _ in range(26):
            value = [value]
        answer = exporter.send(make_span(attributes={**TOOL, "deep": value}), make_span(2, attributes=TOOL))
        assert partial(answer)[0] == 1 and Step.objects.count() == 1

    def test_without_a_key_nothing_is_kept(self, exporter_of: Any) -> None:
        answer = exporter_of().post(as_protobuf(make_span(attributes=TOOL)))
        assert "www-authenticate" in answer.headers
        self.refused(answer, 401)

    def test_a_key_without_the_scope_keeps_nothing(self, exporter_of: Any, workspace: Any) -> None:
        sender = exporter_of(workspace, "export:read", "feedback:write", "route:read")
        assert "decisions:write" in self.refused(sender.post(as_protobuf(make_span(attributes=TOOL))), 403)

    def test_reading_is_no_method(self, exporter: Any) -> None:
        assert exporter._client.get(
            "/v1/traces", headers={"Authorization": f"Bearer {exporter.token}"}
        ).status_code in (403, 405)


class TestRepeats:
    def test_a_span_sent_again_is_not_kept_again(self, exporter: Any) -> None:
        events = (
            ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "good", "gen_ai.evaluation.score.value": 1.0}),
        )
        span = make_span(**{**NEW_GENAI, "events": events})
        for _ in range(3):
            assert partial(exporter.send(span, span)) == (0, "")
        counts = [model.objects.count() for model in (Step, Decision, Feedback, Episode, Agent)]
        assert counts == [1, 1, 1, 1, 1]

    def test_the_same_span_with_other_content_is_refused(self, exporter: Any) -> None:
        span = make_span(attributes=TOOL)
        exporter.send(span)
        other = replace(span, attributes={**TOOL, "gen_ai.tool.name": "find"})
        for spans in ((other,), (span, other)):
            count, message = partial(exporter.send(*spans))
            assert (count, "different content" in message) == (1, True)
        assert Step.objects.get().name == "search"

    def test_another_workspace_may_hold_the_same_trace(
        self, exporter: Any, exporter_of: Any, other_workspace: Any
    ) -> None:
        """Ids are global: the later of two that send the very same span is told so, and sees nothing of the first."""
        span = make_span(attributes=TOOL)
        exporter.send(span)
        theirs = exporter_of(other_workspace, "decisions:write")
        assert partial(theirs.send(span))[0] == 1
        assert not Step.objects.filter(workspace=other_workspace).exists()
        assert partial(theirs.send(make_span(2, attributes=TOOL))) == (0, "")
        assert Episode.objects.count() == 2

    @pytest.mark.django_db(transaction=True)
    def test_the_same_request_from_many_senders_at_once_is_kept_once(self, exporter: Any, at_once: Any) -> None:
        spans = [make_span(n, start=n / 10, **NEW_GENAI) for n in range(1, 20)]
        body = as_protobuf(*spans)
        answers = at_once(6, lambda: exporter.post(body))
        assert [(answer.status_code, partial(answer)) for answer in answers] == [(200, (0, ""))] * 6
        assert (Step.objects.count(), Decision.objects.count(), Episode.objects.count()) == (19, 19, 1)


def test_the_number_of_queries_does_not_grow_with_the_spans(exporter: Any, django_assert_max_num_queries: Any) -> None:
    exporter.send(make_span(99, attributes=TOOL))  # the agent is there
    spans = [make_span(n, start=n / 10, trace=f"{n // 3 + 1:032x}", **NEW_GENAI) for n in range(1, 200)]
    body = as_protobuf(*spans)
    with django_assert_max_num_queries(45):
        assert json.loads(exporter.post(body).content or b"{}") == {}
    assert Step.objects.count() == 200
