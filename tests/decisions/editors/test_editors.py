"""Corrections of every kind of action: by the form with and without scripts, by the API, refused, and taken back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from decisions.agents.actions import make_space
from decisions.agents.kinds import KINDS, action_schema
from decisions.editors.editor import Case, Form
from decisions.editors.parts import compare_words
from decisions.editors.table import case_of, editor_of, find_editor
from decisions.labelling.queues import QueueSetup, create_queue
from decisions.models import Feedback, Label, QueueItem
from tests.decisions.agents.test_kinds_of_agents import ACTIONS, STATES
from tests.decisions.pages.decision_pages import HTMX, at
from tools.actions import ORDER_SCHEMA, TO_CORRECT, make_decision_to_correct

FINDINGS = TO_CORRECT["findings"][1]["action"]["findings"]
CALLS = TO_CORRECT["tool_calls"][1]["action"]
ORDER = TO_CORRECT["structured"][1]["action"]
WITHOUT_PIECES = {name: value for name, value in ORDER.items() if name != "pieces"}
# kind, what is entered in the form, the correction, what the page then says of it
CORRECTED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("choice", {"option": "1"}, "travel", "travel"),
    ("ranking", {"/order": "1 2 0"}, ["tea", "bread", "milk"], "was 1"),
    (
        "structured",
        {
            "/status": '"DONE"',
            "/note": "by\r\npost",
            "/share": "0.25",
            "/pieces": "",
            "/urgent": "true",
            "/address/street": "Low Street 2",
            "/colours": ["", '"green"', '"blue"'],
            "/labels": "kitchen\r\n\r\ncellar",
            "/sizes": "[3]",
        },
        WITHOUT_PIECES
        | {
            "status": "DONE",
            "note": "by\npost",
            "share": 0.25,
            "urgent": True,
            "address": {"street": "Low Street 2"},
            "colours": ["blue", "green"],
            "labels": ["kitchen", "cellar"],
            "sizes": [3],
        },
        "<del dir=\"auto\">TODO</del>",
    ),
    (
        "findings",
        {
            "/order": "0 1 2",
            "/findings/0/keep": [""],
            "/findings/1/type": '"DEPENDENCY"',
            "/findings/1/relatedIds": ["", '"d1"', '"d2"'],
            "/findings/2/type": '"SUGGESTION"',
            "/findings/2/description": "Book early.",
        },
        {
            "findings": [
                {"type": "DEPENDENCY", "relatedIds": ["d2", "d1"]},
                {"type": "SUGGESTION", "description": "Book early."},
            ]
        },
        "Book early.",
    ),
    ("text", {"/text": "We will call you on Friday.\r\nKind regards"}, "We will call you on Friday.\nKind regards",
     "<del>Monday</del><ins>Friday</ins>"),
    (
        "tool_calls",
        {
            "/order": "2 1",
            "/calls/1/arguments": '{"id": 4}',
            "/calls/2/name": '"close"',
            "/calls/2/arguments": "{}",
        },
        [{"name": "close", "arguments": {}}, {"name": "open", "arguments": {"id": 4}}],
        "<ins>4</ins>",
    ),
    (
        "text",
        {"/order": "0", "/calls/0/name": "search", "/calls/0/arguments": '{"query": "opening hours"}'},
        [{"name": "search", "arguments": {"query": "opening hours"}}],
        "opening hours",
    ),
    ("tool_calls", {"/order": "", "/text": "Which tea\r\nis it?"}, "Which tea\nis it?", "Which tea"),
]  # fmt: skip
# kind, what is entered in the form, what is said of it
MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("ranking", {"/order": "1 2"}, "lacks &#x27;milk&#x27;; expected: an order of all"),
    ("ranking", {"/order": "0 1 2 9"}, "&#x27;9&#x27; was not shown"),
    ("ranking", {"/order": "2 1 0 2"}, "&#x27;2&#x27; was not shown, or is repeated"),
    ("ranking", {}, "is the chosen action; expected: another order, or confirm"),
    ("structured", {"/title": "x" * 41}, "is longer than 40 characters; expected: at most 40 characters"),
    ("structured", {"/share": "1,5"}, "&#x27;1,5&#x27; is not a number; expected: a number such as 12 or 0.5"),
    ("structured", {"/share": "2"}, "greater than the maximum of 1; expected: at most 1"),
    ("structured", {"/share": ""}, "is missing"),
    ("structured", {"/pieces": "1.5"}, "expected: a whole number"),
    ("structured", {"/status": '"GONE"'}, "is not one of the options; expected: one of TODO, DONE, LATER"),
    ("structured", {"/colours": ["", '"pink"']}, "expected: one of red, green, blue"),
    ("structured", {"/labels": "a"}, "expected: at least 2 characters"),
    ("structured", {"/sizes": "[1"}, "is not JSON: Input data was truncated; expected: JSON"),
    ("structured", {"/sizes": '["\\u0000"]'}, "the JSON contains a NUL character"),
    ("structured", {}, "is the chosen action; expected: another action, or confirm"),
    ("findings", {"/order": "0 1 2"}, "is missing"),
    ("findings", {"/findings/1/relatedIds": ["", '"d9"']}, "is not one of the options; expected: one of d1: Trains"),
    ("text", {"/text": "We will call you on Monday.\r\nKind regards"}, "is the chosen action"),
    ("tool_calls", {"/text": "Which tea?"}, "was written, and there are tool calls, too; expected: one of both"),
    ("tool_calls", {"/calls/0/arguments": "{"}, "is not JSON: Input data was truncated"),
    ("tool_calls", {"/calls/0/arguments": "[1]"}, "is not an object; expected: an object such as"),
    ("tool_calls", {"/calls/1/name": '"fly"'}, "expected: one of search, open, close"),
]
# kind, what the API is sent, and the place, reason and expectation that it answers
REFUSED: list[tuple[str, Any, tuple[str, str, str]]] = [
    (
        "ranking",
        ["tea", "bread"],
        ("corrected_action", "lacks 'milk'", "an order of all options that were offered"),
    ),
    ("ranking", ["tea", "beer"],
     ("corrected_action[1]", "'beer' is not one of the options", "one of tea, milk, bread")),
    (
        "structured",
        ORDER | {"status": "GONE"},
        ("corrected_action.status", '"GONE" is not one of "TODO", "DONE" or "LATER"', "one of TODO, DONE, LATER"),
    ),
    (
        "findings",
        {"findings": [*FINDINGS, {"type": "RELATED", "relatedIds": ["d9"]}]},
        ("corrected_action.findings[2].relatedIds[0]", "'d9' is not one of the options", "one of d1, d2"),
    ),
    ("text", 3, ("corrected_action", "is neither text nor tool calls", "text, or a list of {name, arguments}")),
    ("tool_calls", [*CALLS, {"name": "open"}],
     ("corrected_action[2].arguments", "is missing", 'an object such as {"id": 3}')),
    ("tool_calls", [*CALLS, {"name": "fly", "arguments": {}}],
     ("corrected_action[2].name", "'fly' is not one of the options", "one of search, open, close")),
    ("text", "We will call you on Monday.\nKind regards",
     ("corrected_action", "is the chosen action", "another action, or confirm")),
]  # fmt: skip


def fill_in(decision: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The form as a browser sends it back, with what was entered."""
    return {**editor_of(decision).enter(case_of(decision)), **given, "correct": "1"}


def nothing_is_said() -> bool:
    return not Label.objects.exists() and not Feedback.objects.exists()


@pytest.mark.django_db
class TestForms:
    @pytest.mark.parametrize(("kind", "given", "correction", "says"), CORRECTED)
    @pytest.mark.quick_cases(3)
    def test_a_correction_is_a_label_is_shown_and_can_be_taken_back(
        self, workspace: Any, labeller: Any, page_client: Any, kind: str, given: Any, correction: Any, says: str
    ) -> None:
        decision, client = make_decision_to_correct(workspace, kind), page_client(labeller)
        answer = client.post(at("decision-label", decision), fill_in(decision, given), headers=HTMX)
        assert answer.status_code == 200 and "HX-Retarget" not in answer
        label = Label.objects.get()
        assert (label.verdict, label.corrected_action) == ("corrected", correction)
        assert [row.value for row in Feedback.objects.all()] == ["corrected"]
        page = client.get(at("decision", decision)).content.decode()
        assert says in page and "{&quot;" not in page.split('id="label-panel"')[1].split("<details")[0]
        assert client.post(at("decision-unlabel", decision), headers=HTMX).status_code == 200
        assert not Label.objects.exists()

    @pytest.mark.parametrize(("kind", "given", "says"), MISTAKES, ids=[f"{row[0]}-{row[2]}" for row in MISTAKES])
    @pytest.mark.quick_cases(4)
    def test_what_does_not_fit_is_said_beside_its_field_and_changes_nothing(
        self, workspace: Any, labeller: Any, page_client: Any, kind: str, given: Any, says: str
    ) -> None:
        decision, client = make_decision_to_correct(workspace, kind), page_client(labeller)
        for headers in ({}, HTMX):
            answer = client.post(at("decision-label", decision), fill_in(decision, given), headers=headers)
            page = answer.content.decode()
            assert answer.status_code == 400 and says in page and "The correction was not saved." in page
            assert ("<html" in page) == (not headers)
        assert nothing_is_said()

    @pytest.mark.parametrize(
        ("kind", "do", "order"),
        [
            ("ranking", "down:0", "1 0 2"),
            ("ranking", "up:0", "0 1 2"),
            ("ranking", "add", "0 1 2"),
            ("findings", "add", "0 1 2"),
            ("tool_calls", "add", "0 1 2"),
            ("tool_calls", "remove:0", "1"),
            ("tool_calls", "down:0", "1 0"),
            ("tool_calls", "down:7", "0 1"),
            ("text", "show", ""),
            ("text", "add", "0"),
        ],
    )
    @pytest.mark.quick_cases(3)
    def test_a_button_of_the_form_changes_the_form_alone(
        self, workspace: Any, labeller: Any, page_client: Any, kind: str, do: str, order: str
    ) -> None:
        decision = make_decision_to_correct(workspace, kind)
        given = {**editor_of(decision).enter(case_of(decision)), "do": do, "next": at("decision", decision)}
        answer = page_client(labeller).post(at("decision-label", decision), given)
        page = answer.content.decode()
        assert answer.status_code == 200 and "Save correction" in page
        assert not order or f'name="/order" value="{order}"' in page
        assert nothing_is_said()

    def test_a_queue_takes_corrections_and_shows_them_to_the_adjudicator(
        self, workspace: Any, by: Any, admin: Any, labeller: Any, page_client: Any
    ) -> None:
        decision = make_decision_to_correct(workspace, "ranking")
        queue = create_queue(by=by, slug="orders", setup=QueueSetup(name="Orders", overlap=2))
        of = [workspace.slug, queue.slug]
        form = reverse("pages:label-queue-label", args=[*of, decision.pk])
        for user, order in ((labeller, "2 0 1"), (admin, "1 0 2")):
            client = page_client(user)
            assert "Save correction" in client.get(reverse("pages:label-queue-work", args=of)).content.decode()
            assert client.post(form, fill_in(decision, {"/order": "0"}), headers=HTMX).status_code == 400
            assert not Label.objects.filter(reviewer=user).exists()
            assert client.post(form, fill_in(decision, {"/order": order}), headers=HTMX).status_code == 200
        assert QueueItem.objects.get().state == "disputed" and not Feedback.objects.exists()
        client = page_client(admin)
        assert "was not ranked" in client.get(reverse("pages:label-queue-disputes", args=of)).content.decode()
        adjudicate = reverse("pages:label-queue-adjudicate", args=[*of, decision.pk])
        assert client.post(adjudicate, fill_in(decision, {"/order": "1 2 0"})).status_code == 302
        resolution = QueueItem.objects.get().resolution
        assert resolution is not None and resolution.corrected_action == ["tea", "bread", "milk"]
        assert Feedback.objects.get().value == "corrected"

    def test_whoever_may_not_label_corrects_nothing(self, workspace: Any, viewer: Any, page_client: Any) -> None:
        decision, client = make_decision_to_correct(workspace, "text"), page_client(viewer)
        form = fill_in(decision, {"/text": "no"})
        assert client.post(at("decision-label", decision), form).status_code == 403
        assert "Save correction" not in client.get(at("decision", decision)).content.decode()
        assert nothing_is_said()


@pytest.mark.django_db
class TestApi:
    @pytest.mark.parametrize(("kind", "given", "correction", "says"), CORRECTED)
    def test_it_takes_the_same_corrections(
        self, workspace: Any, api: Any, kind: str, given: Any, correction: Any, says: str
    ) -> None:
        decision = make_decision_to_correct(workspace, kind)
        said = {"verdict": "corrected", "corrected_action": correction}
        answer = api("feedback:write").post(f"decisions/{decision.id}/labels", said)
        assert answer.status_code == 201, answer.content
        assert Label.objects.get().corrected_action == correction

    @pytest.mark.parametrize(("kind", "correction", "fault"), REFUSED, ids=[f"{r[0]}-{r[2][0]}" for r in REFUSED])
    def test_it_says_where_why_and_what_would_be_right(
        self, workspace: Any, api: Any, kind: str, correction: Any, fault: tuple[str, str, str]
    ) -> None:
        decision = make_decision_to_correct(workspace, kind)
        said = {"verdict": "corrected", "corrected_action": correction}
        answer = api("feedback:write").post(f"decisions/{decision.id}/labels", said)
        assert answer.status_code == 400
        assert [tuple(one.values()) for one in answer.json()["error"]["fields"]] == [fault]
        assert nothing_is_said()


def case(action: Any, schema: Any = None, *, kind: str = "structured", options: Any = None, state: Any = None) -> Case:
    return Case(make_space(kind, schema), action, options, state or {})


def known_case(kind: str) -> Case:
    version, fields = TO_CORRECT[kind]
    space = version.get("action_space", "choice")
    state = fields.get("state")
    return case(fields["action"], version.get("action_schema"), kind=space, options=fields["options"], state=state)


ODD: tuple[list[str], ...] = (
    [], [""], ["", ""], [" "], ["x"], ["-1"], ["1e999"], ["."], ["[" * 40], ["{}"], ["null"], ["9" * 99], ["☃\u2028"],
    ["0 0 99999 123456 a ² -1"], ['{"a": 1e400}'], ['"x"', '"y"'], ["true"], ["\r\n\r"],
)  # fmt: skip


class TestReading:
    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "GUARDRAIL"])
    def test_a_form_that_was_left_alone_says_what_the_agent_did(self, kind: str) -> None:
        self.assert_unchanged(case(ACTIONS[kind], action_schema(KINDS[kind]), state=STATES[kind]))

    @pytest.mark.parametrize(
        ("schema", "action"),
        [
            ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
            ({"enum": ["a", 1, None, True]}, 1),
            ({"$ref": "#/$defs/x", "$defs": {"x": ORDER_SCHEMA}}, ORDER),
            ({"properties": {"a/b~c": {"type": "string"}}}, {"a/b~c": "d\r\ne", "other": {"deep": [1.0]}}),
            ({"properties": {"n": {"type": ["number", "null"]}, "m": {"type": "number"}}}, {"n": 1.0, "m": 1e300}),
            ({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, {"a": ["two\nlines", " x"]}),
            ({"properties": {"a": {"properties": {"b": {"properties": {"c": {}}}}}}}, {"a": {"b": {"c": [None]}}}),
            ({"properties": {"a": {"properties": {"b": {"type": "string"}}, "required": ["b"]}}}, {}),
            ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, {"a": ""}),
            ({"properties": {"findings": {"items": {"properties": {"type": {}}}}}}, {"findings": ["odd", {"type": 1}]}),
        ],
    )
    def test_no_schema_loses_anything(self, schema: Any, action: Any) -> None:
        self.assert_unchanged(case(action, schema))

    def assert_unchanged(self, given: Case) -> None:
        editor = find_editor(given.space)
        entered = editor.enter(given)
        sent = {name: [re.sub(r"\r\n|\r|\n", "\r\n", text) for text in texts] for name, texts in entered.items()}
        for form in (entered, sent):
            draft = editor.read(given, form)
            assert (draft.action, draft.faults) == (given.action, ())
            assert editor.draw(given, form).faults == ()
        assert editor.say(given.action) and editor.show(given, given.action, corrected=True)

    @pytest.mark.parametrize("kind", TO_CORRECT)
    @pytest.mark.quick_cases(2)
    def test_any_value_can_be_entered(self, kind: str) -> None:
        known = known_case(kind)
        editor = find_editor(known.space)
        entered = editor.enter(known)
        for name in (*entered, "option", "/findings/0/keep", "/order"):
            for odd in ODD:
                form = {**entered, name: odd}
                draft = editor.read(known, form)
                faults = draft.faults or tuple(editor.find_faults(known, draft.action))
                assert isinstance(editor.draw(known, form, faults), Form)
        for do in ("add:", "up:", "up:-1", "remove:99999999999", "down:x", ":", "remove:0:1", "add" * 1000):
            assert isinstance(editor.draw(known, editor.change(known, entered, do)), Form)

    @pytest.mark.parametrize("kind", TO_CORRECT)
    def test_any_value_can_be_shown(self, kind: str) -> None:
        known = known_case(kind)
        editor = find_editor(known.space)
        for odd in ("erased", None, 3, [], {}, [[]], {"findings": 3}, [{"name": 3}], {"findings": [{}]}):
            assert isinstance(editor.say(odd), str)
            editor.show(known, odd)
            editor.show(known, odd, corrected=True)


@given(st.text(), st.text())
def test_both_texts_can_be_read_from_their_comparison(was: str, now: str) -> None:
    runs = compare_words(was, now)
    assert "".join(run.text for run in runs if run.mark != "added") == was
    assert "".join(run.text for run in runs if run.mark != "removed") == now


def test_long_texts_are_compared_by_lines() -> None:
    lines = [f"{number} and more words\n" for number in range(2_000)]
    runs = compare_words("".join(lines), "".join([*lines[:1000], "new\n", *lines[1000:]]))
    assert [run.text for run in runs if run.mark] == ["new\n"]
