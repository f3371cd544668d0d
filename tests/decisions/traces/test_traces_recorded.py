"""What traces leave in the ledger, in whatever order and pieces they arrive."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import transaction
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from decisions.erasure.erasing import Person, erase_decisions, erase_without_decisions, find_decisions
from decisions.models import Agent, Decision, Episode, Feedback, Step
from decisions.traces.recording import record_spans
from tests.decisions.conftest import in_another_connection, wait_for_a_waiter
from tests.decisions.traces.spans_made import NEW_GENAI, TRACE, make_span
from tools.factories import OPTIONS, RewardFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
ROOT = {
    "openinference.span.kind": "AGENT",
    "agent.name": "Concierge",
    "input.value": "find me a folder",
    "output.value": '{"answer": "travel it is"}',
    "session.id": "monday",
    "user.id": "ann",
    "gen_ai.usage.input_tokens": 999,
    "reckoner.tasks.created": 2,
}


def erase(workspace: Any, unit: str) -> None:
    person, secret = Person("unit", unit), b"s" * 32
    ids = find_decisions(workspace=workspace, person=person, after=None, size=100)
    erase_decisions(workspace=workspace, ids=ids, secret=secret)
    erase_without_decisions(workspace=workspace, person=person, secret=secret)


def story() -> list[Any]:
    """An agent that asks a model, calls a tool that fails, and asks again. All begin within the same millisecond."""
    last = {**NEW_GENAI["attributes"], "gen_ai.output.messages": '[{"role": "assistant", "content": "the last word"}]'}
    return [
        make_span(1, seconds=2, name="concierge", attributes=ROOT),
        make_span(2, start=0.0001, parent=1, **NEW_GENAI),
        make_span(3, start=0.5, parent=1, attributes=TOOL, failed=True, message="no such index"),
        make_span(4, start=0.6, parent=3, attributes={"openinference.span.kind": "CHAIN"}, name="inside"),
        make_span(5, start=1.0, seconds=0.9, parent=1, attributes=last),
    ]


def told() -> dict[str, Any]:
    episode = Episode.objects.get()
    return {
        "episode": (episode.query, episode.final_response, episode.session, episode.unit, episode.tasks_created),
        "agent": episode.agent.slug,
        "times": (episode.started_at, episode.ended_at),
        "steps": sorted(Step.objects.values_list("id", "kind", "name", "parent", "decision_id", "success", "error")),
        "decisions": sorted(Decision.objects.values_list("id", "agent__slug", "action", "episode")),
    }


def message(answer: Any) -> str:
    return str(ExportTraceServiceResponse.FromString(answer.content).partial_success.error_message)


@pytest.mark.slow
def test_any_order_and_any_pieces_tell_the_same(exporter: Any) -> None:
    spans = story()
    exporter.send(*spans)
    expected = told()
    assert expected["episode"] == ("find me a folder", "travel it is", "monday", "ann", 2)
    assert expected["agent"] == "concierge"
    assert {slug for _, slug, _, _ in expected["decisions"]} == {"concierge"}  # their spans name no agent
    for number, order in enumerate(itertools.permutations(spans)):
        if number % 17:
            continue  # eight of the orders
        for model in (Step, Decision, Episode):
            model.objects.all().delete()
        for span in order:
            exporter.send(span)
        found = told()
        assert {**found, "decisions": [row[:3] for row in found["decisions"]]} == {
            **expected,
            "decisions": [row[:3] for row in expected["decisions"]],
        }


def test_a_span_is_the_nearest_agent_s_above_it(exporter: Any, agent: Any) -> None:
    """FILER, whose actions are options, works inside of the concierge; a span of no agent lies between."""
    filed = json.dumps([{"role": "assistant", "content": OPTIONS[0]}])
    inner = {**NEW_GENAI["attributes"], "gen_ai.output.messages": filed}
    spans = [
        make_span(1, seconds=9, attributes=ROOT),
        make_span(2, start=1, parent=1, attributes={"openinference.span.kind": "AGENT", "agent.name": "Filer"}),
        make_span(3, start=2, parent=2, attributes={"http.method": "POST"}),
        make_span(4, start=3, parent=3, attributes=inner),
        make_span(5, start=4, parent=1, **NEW_GENAI),
    ]
    circle = [make_span(6, start=5, parent=7, **NEW_GENAI), make_span(7, start=6, parent=6, **NEW_GENAI)]
    exporter.send(*reversed(spans), *circle)
    exporter.send(make_span(8, start=7, parent=1, **NEW_GENAI))
    decisions = Decision.objects.order_by("id").values_list("agent__slug", "action")
    assert list(decisions) == [("filer", OPTIONS[0]), *[("concierge", "travel")] * 4]
    assert not Agent.objects.filter(slug="notes-app").exists()


def test_what_came_before_its_root_moves_to_the_root_s_agent_until_it_is_rewarded(
    exporter: Any, agent: Any, workspace: Any
) -> None:
    other = {**NEW_GENAI["attributes"], "gen_ai.output.messages": '[{"role": "assistant", "content": "gardening"}]'}
    exporter.send(make_span(2, start=0.1, parent=1, **NEW_GENAI))
    exporter.send(make_span(3, start=0.2, parent=1, attributes=other), make_span(4, start=0.3, parent=1, **NEW_GENAI))
    fits, foreign, rewarded = Decision.objects.order_by("id")
    RewardFactory(decision=rewarded)
    exporter.send(make_span(5, trace=f"{5:032x}", **NEW_GENAI))  # of another trace
    exporter.send(make_span(1, seconds=2, attributes={**ROOT, "agent.name": "filer"}))
    by_agent = {row.id: (row.agent.slug, row.agent_version.agent.slug, row.options) for row in Decision.objects.all()}
    assert by_agent.pop(fits.id) == ("filer", "filer", list(OPTIONS))
    assert set(by_agent) > {foreign.id, rewarded.id}
    assert set(map(str, by_agent.values())) == {str(("notes-app", "notes-app", None))}


def test_the_first_word_and_the_last_where_no_agent_span_says_them(exporter: Any) -> None:
    _, asked, failed, _, last = story()
    exporter.send(last, failed, asked)
    episode = Episode.objects.get()
    assert (episode.query, episode.final_response) == ("which folder?", "the last word")
    assert Agent.objects.get().slug == "notes-app"


def test_an_agent_is_made_for_what_is_told_of_and_may_be_one_s_own(exporter: Any, agent: Any) -> None:
    """FILER chooses among options: an answer that is one of them is a decision, another stays a step."""
    for number, said in enumerate((OPTIONS[0], "  " + OPTIONS[1] + "\n", "none of them"), start=1):
        written = json.dumps([{"role": "assistant", "content": said}])
        attributes = {**NEW_GENAI["attributes"], "gen_ai.output.messages": written, "reckoner.agent": "filer"}
        assert message(exporter.send(make_span(number, start=number, attributes=attributes))) == ""
    assert list(Decision.objects.order_by("id").values_list("action", "agent__slug", "policy_name")) == [
        (OPTIONS[0], "filer", "gpt-x-1"),
        (OPTIONS[1], "filer", "gpt-x-1"),
    ]
    assert [step.decision_id is None for step in Step.objects.order_by("id")] == [False, False, True]
    # The messages are stored once: with the decision where there is one.
    assert [step.arguments is None for step in Step.objects.order_by("id")] == [True, True, False]
    assert Agent.objects.count() == 1


CALL = {"name": "look_up", "arguments": {"day": 3}, "id": "c1"}
MADE_OF_SPANS = [
    ({"content": "Gladly."}, "Gladly.", "Gladly."),
    ({"tool_calls": [CALL]}, [CALL], None),
    ({"content": "One moment.", "tool_calls": [CALL]}, [CALL], "One moment."),
]


def test_a_model_s_answer_is_a_decision_in_words_or_of_calls(exporter: Any) -> None:
    for number, (message, action, completion) in enumerate(MADE_OF_SPANS):
        said = json.dumps([{"role": "assistant"} | message])
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "speaker",
            "gen_ai.output.messages": said,
            "gen_ai.response.finish_reasons": ["tool_calls" if isinstance(action, list) else "max_tokens"],
        }
        exporter.send(make_span(trace=f"{number + 1:032x}", attributes=attributes))
        decision = Decision.objects.order_by("-recorded_at").first()
        assert decision is not None and decision.agent_version.action_space == "text"
        assert (decision.action, decision.completion) == (action, completion)
        assert decision.finish_reason == ("tool_calls" if isinstance(action, list) else "length")


def test_a_decision_in_our_words_is_kept_with_its_propensity(exporter: Any, agent: Any) -> None:
    attributes = {
        "openinference.span.kind": "DECISION",
        "reckoner.agent": "filer",
        "reckoner.state": '{"text": "a flight"}',
        "reckoner.action": OPTIONS[0],
        "reckoner.propensity": 0.7,
        "reckoner.unit": "ann",
    }
    exporter.send(make_span(attributes=attributes))
    decision = Decision.objects.get()
    assert (decision.propensity, decision.unit, decision.options) == (0.7, "ann", list(OPTIONS))
    assert decision.steps.get().kind == "span"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reckoner.action": "gardening"}, "is not one of the options"),
        ({"reckoner.propensity": 1.7}, "propensity"),
        ({"reckoner.unit": ""}, ""),
    ],
    ids=str,
)
def test_a_decision_that_cannot_be_kept_is_told_and_its_step_stays(
    exporter: Any, agent: Any, fields: dict[str, Any], reason: str
) -> None:
    attributes = {"reckoner.agent": "filer", "reckoner.action": OPTIONS[0], **fields}
    answer = exporter.send(make_span(attributes=attributes))
    assert reason in message(answer)
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 0
    assert (Step.objects.count(), Decision.objects.count()) == (1, int(not reason))


def test_a_decision_model_s_questions_are_agents_of_their_own(exporter: Any) -> None:
    questions = {name: {"type": "noul", "question": name} for name in ("urgent", "spam")}
    answers = {"urgent": {"answer": True, "probability": 0.9}, "spam": {"answer": False}}
    attributes = {
        "openinference.span.kind": "DECISION",
        "decision.model_name": "jev",
        "input.value": json.dumps({"state": "text", "questions": questions}),
        "output.value": json.dumps({"answers": answers}),
    }
    exporter.send(make_span(attributes=attributes))
    rows = Decision.objects.order_by("agent__slug").values_list("agent__slug", "action", "confidence", "propensity")
    assert list(rows) == [("notes-app-spam", "false", None, None), ("notes-app-urgent", "true", 0.9, None)]
    assert set(Agent.objects.filter(decisions__isnull=False).values_list("versions__action_space", flat=True)) == {
        "choice"
    }


def test_an_evaluation_lands_on_the_decision_else_on_the_episode(exporter: Any) -> None:
    event = ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "good", "gen_ai.evaluation.score.value": 0.5})
    exporter.send(
        make_span(1, attributes=NEW_GENAI["attributes"], events=(event,)),
        make_span(2, attributes=TOOL, events=(event,)),
    )
    assert [
        (one.decision is None, one.episode is None, one.value) for one in Feedback.objects.order_by("decision")
    ] == [
        (False, True, 0.5),
        (True, False, 0.5),
    ]


def test_a_verdict_that_is_none_is_told(exporter: Any) -> None:
    event = ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "verdict", "gen_ai.evaluation.score.label": "meh"})
    answer = exporter.send(make_span(attributes=TOOL, events=(event,)))
    assert "its evaluation was not kept: value: 'meh' is not a verdict" in message(answer)
    assert Step.objects.count() == 1 and not Feedback.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_new_agents_of_many_requests_at_once_do_not_wait_for_each_other_in_a_circle(
    exporter: Any, at_once: Any
) -> None:
    for turn in range(5):
        one, two, three = (f"{name}-{turn}" for name in ("one", "two", "three"))
        named = iter([[one, two, three], [two], [three], [one, three]])

        def send(named: Any = named) -> Any:
            spans = [
                make_span(n, trace=uuid7().hex, attributes={**TOOL, "gen_ai.agent.name": name})
                for n, name in enumerate(next(named), 1)
            ]
            return exporter.send(*spans)

        assert [message(answer) for answer in at_once(4, send)] == [""] * 4
        assert Agent.objects.filter(slug__in=(one, two, three)).count() == 3
    assert (Agent.objects.count(), Step.objects.count()) == (15, 35)


def test_names_without_end_do_not_make_agents_without_end(exporter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decisions.traces.recording.MOST_AGENTS", 3)
    spans = [make_span(n, attributes={**TOOL, "gen_ai.agent.name": f"agent {n}"}) for n in range(1, 6)]
    answer = exporter.send(*spans)
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 2
    assert "there are 3 agents already" in message(answer)
    assert (Agent.objects.count(), Step.objects.count()) == (3, 3)


def test_a_trace_may_be_added_to_over_the_api(exporter: Any, api: Any) -> None:
    exporter.send(make_span(attributes=TOOL))
    step = {"kind": "reasoning", "agent": "notes-app", "episode": f"trace:{TRACE}", "content": "hm"}
    assert api("decisions:write").post("steps", step).status_code == 201
    assert Episode.objects.get().steps.count() == 2


class TestAfterAnErasure:
    """What was erased does not come back with a trace that is sent again, or late."""

    @pytest.fixture
    def erased(self, exporter: Any, agent: Any, workspace: Any) -> list[Any]:
        """A story whose root names ann, with a decision of hers; told, and then erased."""
        words = {"reckoner.agent": "filer", "reckoner.action": OPTIONS[0], "reckoner.unit": "ann"}
        spans = [*story(), make_span(7, start=1.1, parent=1, attributes=words)]
        exporter.send(*spans)
        assert Episode.objects.get().query == "find me a folder"
        erase(workspace, "ann")
        assert (Episode.objects.get().query, Episode.objects.get().is_erased) == ("erased", True)
        return spans

    def everything(self) -> list[Any]:
        return [list(model.objects.order_by("pk").values()) for model in (Episode, Step, Decision, Feedback, Agent)]

    @pytest.mark.parametrize("media_type", ["application/x-protobuf", "application/json"])
    def test_sent_again_every_span_is_refused_and_nothing_changes(
        self, exporter: Any, erased: list[Any], media_type: str
    ) -> None:
        before = self.everything()
        answer = exporter.send(*erased, media_type=media_type)
        assert b"erased" in answer.content
        if media_type.endswith("protobuf"):
            partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
            assert partial.rejected_spans == len(erased)
        assert self.everything() == before

    def test_a_late_span_of_it_is_refused_and_another_trace_is_kept(self, exporter: Any, erased: list[Any]) -> None:
        before = Episode.objects.values().get()
        late = make_span(9, start=2.5, parent=1, **NEW_GENAI)
        other = make_span(1, trace="0" * 31 + "1", attributes={**ROOT, "user.id": "bob"})
        answer = exporter.send(late, other)
        assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
        assert Episode.objects.values().get(id=before["id"]) == before
        assert Episode.objects.get(unit="bob").query == "find me a folder"
        assert not Step.objects.filter(external_id=late.span_id).exists()

    def test_a_span_that_tells_of_an_erased_decision_is_refused(
        self, api: Any, exporter: Any, agent: Any, workspace: Any
    ) -> None:
        """The decision was recorded by itself; the span that repeats its words comes behind the erasure."""
        span = make_span(
            attributes={"reckoner.agent": "filer", "reckoner.action": OPTIONS[0], "reckoner.state": '{"text": "Ann"}'}
        )
        exporter.send(span)
        sent = Decision.objects.get()
        Step.objects.all().delete()
        Decision.objects.filter(id=sent.id).update(unit="ann", episode=None)
        Episode.objects.all().delete()
        erase(workspace, "ann")
        before = [list(model.objects.order_by("pk").values()) for model in (Step, Decision, Feedback)]
        answer = exporter.send(span)
        assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
        assert "erased" in message(answer)
        assert [list(model.objects.order_by("pk").values()) for model in (Step, Decision, Feedback)] == before


@pytest.mark.django_db(transaction=True)
def test_a_span_that_comes_while_its_trace_is_being_erased_is_refused(
    exporter: Any, by: Any, agent: Any, workspace: Any
) -> None:
    first, *rest = story()
    exporter.send(first)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            erase(workspace, "ann")
            sent = pool.submit(in_another_connection, lambda: record_spans(by=by, spans=rest))
            wait_for_a_waiter()
        recorded = sent.result(timeout=60)
    assert len(recorded.refused) == len(rest)
    assert (Episode.objects.get().query, Step.objects.count(), Decision.objects.count()) == ("erased", 1, 0)
