"""The ledger's pages: reading by anyone of the workspace, judging by labellers and admins."""

from __future__ import annotations

import datetime as dt
import re
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.urls import reverse
from django.utils import timezone

from decisions.labelling.labels import label_decision
from decisions.models import Decision, Feedback, Label, Reward, Skip
from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import (
    OPTIONS,
    AgentFactory,
    DecisionFactory,
    ExposureFactory,
    FeedbackFactory,
    LabelFactory,
    ModelVersionFactory,
    RewardFactory,
    uuid7_at,
)

HTMX = {"HX-Request": "true"}


@pytest.fixture
def decision(agent: Any) -> Decision:
    return DecisionFactory(
        agent=agent,
        state={"text": "a ticket to <Lisbon>", "items": ["one"]},
        action="travel",
        propensity=0.6123,
        alternatives=[{"action": o, "probability": p} for o, p in zip(OPTIONS, (0.3, 0.6123, 0.0877), strict=True)],
    )


def at(name: str, decision: Decision, slug: str | None = None) -> str:
    if name == "decisions-list":
        return reverse("pages:decisions", args=[slug or decision.workspace.slug])
    return reverse(f"pages:{name}", args=[slug or decision.workspace.slug, decision.pk])


def judged(decision: Decision) -> tuple[list[Any], list[Any]]:
    labels = (
        Label.objects.filter(decision=decision)
        .order_by("id")
        .values_list("verdict", "corrected_action", "reviewer__email")
    )
    return list(labels), list(Feedback.objects.filter(decision=decision).values_list("metric", "value"))


class TestList:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:decisions", args=[workspace.slug])

    def test_an_empty_ledger_says_what_to_do(self, viewer: Any, path: str, page_client: Any) -> None:
        assert "No decisions yet" in page_client(viewer).get(path).content.decode()

    def test_pages_follow_the_cursor_without_gap_or_repetition(
        self, agent: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        made = [str(DecisionFactory(agent=agent).id) for _ in range(60)]
        client = page_client(viewer)
        seen: list[str] = []
        query = ""
        for _ in range(4):
            page = client.get(path + query)
            seen += [str(row.decision.id) for row in page.context["rows"]]
            query = "?" + page.context["older"]
            if query == "?":
                break
        assert seen == sorted(made, reverse=True)

    def test_the_filter_travels_with_the_cursor_and_leaves_others_out(
        self, agent: Any, workspace: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        other = AgentFactory(workspace=workspace, slug="librarian")
        DecisionFactory.create_batch(30, agent=agent)
        DecisionFactory.create_batch(3, agent=other)
        client = page_client(viewer)
        page = client.get(path, {"agent": "filer"})
        assert {row.decision.agent.slug for row in page.context["rows"]} == {"filer"}
        assert page.context["older"].startswith("agent=filer&before=")
        assert "No decisions match these filters" in client.get(path, {"agent": "unknown"}).content.decode()

    def test_htmx_gets_the_list_alone_and_history_the_whole_page(
        self, decision: Decision, viewer: Any, path: str, page_client: Any
    ) -> None:
        client = page_client(viewer)
        part = client.get(path, headers=HTMX)
        assert part.content.decode().lstrip().startswith('<div id="decisions"')
        assert "HX-Request" in part["Vary"]
        whole = client.get(path, headers={**HTMX, "HX-History-Restore-Request": "true"})
        assert whole.content.decode().startswith("<!doctype html>")

    def test_a_cursor_that_is_no_id_is_refused(self, viewer: Any, path: str, page_client: Any) -> None:
        answer = page_client(viewer).get(path, {"before": "yesterday"})
        assert answer.status_code == 400 and "not an id" in answer.content.decode()

    def test_the_queries_do_not_grow_with_the_rows(
        self, agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        for decision in DecisionFactory.create_batch(25, agent=agent):
            LabelFactory(decision=decision)
            FeedbackFactory(decision=decision)
            RewardFactory(decision=decision)
        client = page_client(viewer)
        client.get(path)
        with django_assert_max_num_queries(17):
            assert len(client.get(path).context["rows"]) == 25
        with django_assert_max_num_queries(19):
            narrow = {"verdict": "confirmed", "agent": "filer", "order": "uncertain"}
            assert len(client.get(path, narrow).context["rows"]) == 25

    def test_each_filter_finds_what_it_names_and_nothing_else(
        self, agent: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        now = timezone.now()
        version = ModelVersionFactory(registered_model=agent.registered_model)
        exposure = ExposureFactory(phase__experiment__registered_model=agent.registered_model, arm="treatment")
        plain = DecisionFactory(agent=agent)
        old = DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=3)), external_id="order 7")
        ours = DecisionFactory(agent=agent, model_version=version, policy_name=None, unit="Ada")
        tried = DecisionFactory(agent=agent, exposure=exposure)
        FeedbackFactory(decision=tried, value="overridden")
        FeedbackFactory(decision=ours, value="corrected")
        LabelFactory(decision=ours, verdict="confirmed")
        client = page_client(viewer)

        def found(**given: str) -> list[Any]:
            return [row.decision.id for row in client.get(path, given).context["rows"]]

        assert found(verdict="no_verdict") == [plain.id, old.id]
        assert found(verdict="confirmed") == [ours.id]  # the label says more than the feedback
        assert found(verdict="overridden") == [tried.id] and found(verdict="corrected") == []
        assert found(version=str(version)) == [ours.id] and found(version="filer:99") == found(version="x") == []
        assert found(arm="treatment") == [tried.id] and found(arm="control") == []
        assert found(since="24h") == [tried.id, ours.id, plain.id] and len(found(since="7d")) == 4
        assert found(q="order 7") == [old.id] and found(q="Ada") == [ours.id] and found(q="Ad") == []
        assert found(q=str(old.id).upper()) == [old.id]
        assert found(since="24h", verdict="no_verdict") == [plain.id]

    def test_words_are_found_in_state_action_and_reasoning_whatever_their_case(
        self, agent: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        state = DecisionFactory(agent=agent, state={"text": "Über 100% of an invoice", "tags": ["late"]})
        action = DecisionFactory(agent=agent, state={"text": "x"}, action="Travel_Abroad")
        reasoning = DecisionFactory(agent=agent, state={"text": "x"}, reasoning="it says invoice, and late")
        DecisionFactory(agent=agent, state={"text": "an invo-ice of 1000"}, action="travel abroad")
        client = page_client(viewer)

        def found(q: str) -> set[Any]:
            return {row.decision.id for row in client.get(path, {"q": q}).context["rows"]}

        assert found("INVOICE late") == {state.id, reasoning.id} and found("über invoice") == {state.id}
        assert found("100%") == {state.id} and found("travel_abroad") == {action.id}
        assert found("late missing") == found("\\") == found("'; DROP") == set()
        chips = client.get(path, {"q": "late"}).context["chips"]
        assert [(chip.name, chip.value) for chip in chips] == [("Words", "late")]

    def test_a_name_is_found_however_old_and_its_pages_follow_the_cursor(
        self, agent: Any, other_workspace: Any, viewer: Any, path: str, page_client: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("decisions.queries.browse.NAMED", 30)
        now = timezone.now()
        DecisionFactory(agent=AgentFactory(workspace=other_workspace), unit="Ada")
        made = [
            str(DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=days)), **fields).id)
            for days in range(0, 320, 5)
            for fields in ({"unit": "Ada"}, {"unit": "Eve", "external_id": "Ada" if days % 2 else None})
        ]
        old = DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=380)), item_ref="item 9")
        client = page_client(viewer)
        assert [row.decision.id for row in client.get(path, {"q": "item 9"}).context["rows"]] == [old.id]
        wanted = {row for place, row in enumerate(made) if place % 2 == 0 or (place // 2) % 2}
        seen: list[str] = []
        query = "q=Ada"
        while query:
            page = client.get(f"{path}?{query}")
            assert [(chip.name, chip.value) for chip in page.context["chips"]] == [("Found by name", "Ada")]
            seen += [str(row.decision.id) for row in page.context["rows"]]
            query = page.context["older"] or page.context["go_on"]
        assert seen == sorted(wanted, reverse=True)
        assert client.get(path, {"q": "Ada", "agent": "nobody"}).context["rows"] == []
        recent = client.get(path, {"q": "Ada", "since": "7d"}).context
        assert len(recent["rows"]) == 3 and recent["go_on"] == "" and recent["chart"].total == 3

    def test_a_search_costs_the_same_statements_whatever_it_finds(
        self, agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        now = timezone.now()
        for days in range(300):
            DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(days=days)), unit="Ada" if days % 2 else "Eve")
        client = page_client(viewer)
        client.get(path)
        for q, rows in (("Ada", 25), ("note", 25), ("nothing", 0)):
            with django_assert_max_num_queries(27):
                assert len(client.get(path, {"q": q, "agent": "filer"}).context["rows"]) == rows

    def test_a_nul_in_the_search_is_refused(self, viewer: Any, path: str, page_client: Any) -> None:
        answer = page_client(viewer).get(path, {"q": "a\x00b"})
        assert answer.status_code == 400 and "NUL" in answer.content.decode()

    @pytest.mark.parametrize(
        ("field", "value"), [("verdict", "splendid"), ("arm", "left"), ("since", "9y"), ("order", "x")]
    )
    def test_a_filter_that_is_none_is_refused(
        self, field: str, value: str, viewer: Any, path: str, page_client: Any
    ) -> None:
        answer = page_client(viewer).get(path, {field: value})
        assert answer.status_code == 400 and "is unknown" in answer.content.decode()

    def test_the_most_uncertain_come_first_over_pages_and_such_without_confidence_last(
        self, agent: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        sure = [0.9, 0.2, None, 0.5, *[0.3] * 26]
        made = [DecisionFactory(agent=agent, confidence=value) for value in sure]
        client = page_client(viewer)
        first = client.get(path, {"order": "uncertain"})
        then = client.get(path + "?" + first.context["older"])
        rows = [row.decision for page in (first, then) for row in page.context["rows"]]
        assert [row.confidence for row in rows] == [0.2, *[0.3] * 26, 0.5, 0.9, None]
        assert len({row.id for row in rows}) == len(made) and then.context["older"] == ""

    def test_a_look_that_ends_says_so_and_goes_on_where_it_ended(
        self, agent: Any, viewer: Any, path: str, page_client: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("decisions.queries.browse.LOOK", 5)
        wanted = DecisionFactory(agent=agent, state={"text": "a ticket for Ada"})
        made = DecisionFactory.create_batch(7, agent=agent)
        client = page_client(viewer)
        page = client.get(path, {"q": "Ada"})
        assert page.context["rows"] == []
        assert "Searched 5 decisions for Ada and found none" in page.content.decode()
        assert page.context["go_on"] == f"q=Ada&before={made[2].id}"
        page = client.get(f"{path}?{page.context['go_on']}")
        assert [row.decision.id for row in page.context["rows"]] == [wanted.id] and page.context["go_on"] == ""

    def test_the_chart_counts_by_time_and_verdict(self, agent: Any, viewer: Any, path: str, page_client: Any) -> None:
        now = timezone.now()
        for hours, value in ((0, "confirmed"), (1, "confirmed"), (1, ""), (30, "corrected")):
            decision = DecisionFactory(agent=agent, id=uuid7_at(now - dt.timedelta(hours=hours)))
            if value:
                FeedbackFactory(decision=decision, value=value)
        client = page_client(viewer)
        chart = client.get(path).context["chart"]
        assert dict(chart.totals) == {
            "confirmed": 2, "corrected": 1, "overridden": 0, "ignored": 0, "no_verdict": 1,
        }  # fmt: skip
        assert chart.by == "hour" and len(chart.bars) == 31 and chart.complete
        assert dict(chart.bars[0].counts) == {"corrected": 1}
        assert dict(chart.bars[29].counts) == {"confirmed": 1, "no_verdict": 1}
        assert [(part.y, part.height) for part in chart.bars[29].parts] == [("50.00%", "50.00%"), ("0.00%", "50.00%")]
        recent = client.get(path, {"since": "1h"}).context["chart"]
        assert recent.by == "5 minutes" and recent.total == 1 and len(recent.bars) == 12
        assert client.get(path, {"agent": "nobody"}).context["chart"] is None

    def test_active_filters_are_seen_and_each_can_be_taken_away(
        self, decision: Decision, viewer: Any, path: str, page_client: Any
    ) -> None:
        page = page_client(viewer).get(path, {"agent": "filer", "verdict": "no_verdict", "q": "<b>"})
        assert [(chip.name, chip.query) for chip in page.context["chips"]] == [
            ("Agent", "verdict=no_verdict&q=%3Cb%3E"),
            ("Verdict", "agent=filer&q=%3Cb%3E"),
            ("Words", "agent=filer&verdict=no_verdict"),
        ]
        assert "<b>" not in page.content.decode()

    def test_decisions_of_another_workspace_are_not_listed(
        self, decision: Decision, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        path = reverse("pages:decisions", args=[other_workspace.slug])
        client = page_client(outsider)
        for given in ({}, {"q": str(decision.id)}, {"agent": "filer"}, {"order": "uncertain"}):
            page = client.get(path, given)
            assert page.context["rows"] == [] and page.context["chart"] is None


class TestDetail:
    def test_it_shows_what_was_decided_and_what_came_of_it(
        self, decision: Decision, viewer: Any, page_client: Any
    ) -> None:
        FeedbackFactory(decision=decision, metric="stars", value=4)
        RewardFactory(decision=decision, value=0.75)
        page = page_client(viewer).get(at("decision", decision)).content.decode()
        assert "a ticket to &lt;Lisbon&gt;" in page
        assert "61.2%" in page and "stars" in page and "0.75" in page

    def test_it_shows_an_error_of_a_component_as_such_and_no_value(
        self, decision: Decision, viewer: Any, page_client: Any
    ) -> None:
        RewardFactory(decision=decision, value=None, raw=None, components={"verdict": {"error": "unknown verdict"}})
        page = page_client(viewer).get(at("decision", decision)).content.decode()
        assert "no value" in page and "unknown verdict" in page

    def test_it_names_the_variant_that_the_unit_met(self, agent: Any, viewer: Any, page_client: Any) -> None:
        exposure = ExposureFactory(
            phase__experiment__registered_model=agent.registered_model, arm="treatment", assignment_probability=0.25
        )
        decision = DecisionFactory(agent=agent, exposure=exposure)
        page = page_client(viewer).get(at("decision", decision)).content.decode()
        assert "treatment" in page and "25.0%" in page

    def test_neighbours_stay_inside_the_filter(self, agent: Any, workspace: Any, viewer: Any, page_client: Any) -> None:
        other = AgentFactory(workspace=workspace, slug="librarian")
        first = DecisionFactory(agent=agent)
        between = DecisionFactory(agent=other)
        last = DecisionFactory(agent=agent)
        client = page_client(viewer)
        assert client.get(at("decision", last)).context["older"] == between.id
        page = client.get(at("decision", last) + "?agent=filer")
        assert page.context["older"] == first.id and page.context["newer"] is None

    def test_text_is_written_in_its_own_direction(self, agent: Any, viewer: Any, page_client: Any) -> None:
        texts = {"text": "מסמך", "reasoning": "כי כך", "option": "עבודה"}
        options = [texts["option"], "בית"]
        decision = DecisionFactory(
            agent=agent,
            state={"text": texts["text"]},
            reasoning=texts["reasoning"],
            options=options,
            action=options[0],
        )
        page = page_client(viewer).get(at("decision", decision)).content.decode()
        for text in texts.values():
            assert re.search(rf'dir="auto"[^>]*>{text}', page), text

    def test_a_state_of_any_shape_is_shown_and_escaped(self, agent: Any, viewer: Any, page_client: Any) -> None:
        bad = "<script>alert(1)</script>"
        deep: Any = bad
        for _ in range(30):
            deep = {bad: [deep]}
        client = page_client(viewer)
        for state in ({bad: bad}, {"deep": deep}, [1, bad], bad, {}, [], {"many": list(range(500))}):
            decision = DecisionFactory(agent=agent, state=state, reasoning=bad, action=bad, options=None, unit=bad)
            for page in (client.get(at("decision", decision)), client.get(at("decisions-list", decision))):
                text = page.content.decode()
                assert page.status_code == 200 and bad not in text
            if state == {"many": list(range(500))}:
                assert "300 more" in client.get(at("decision", decision)).content.decode()

    def test_an_outsider_sees_nothing_under_either_address(
        self, decision: Decision, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        assert client.get(at("decision", decision)).status_code == 404
        assert client.get(at("decision", decision, other_workspace.slug)).status_code == 404


class TestLabel:
    def test_confirming_writes_the_label_and_the_feedback(
        self, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        answer = page_client(labeller).post(at("decision-label", decision), {"verdict": "confirmed"})
        assert answer["Location"] == at("decision", decision)
        assert judged(decision) == ([("confirmed", None, labeller.email)], [("verdict", "confirmed")])

    def test_correcting_names_the_right_option(self, decision: Decision, admin: Any, page_client: Any) -> None:
        answer = page_client(admin).post(
            at("decision-label", decision), {"verdict": "corrected", "option": "2"}, headers=HTMX
        )
        assert answer.status_code == 200 and '<span class="tag ok">right</span>' in answer.content.decode()
        assert judged(decision)[0] == [("corrected", "health", admin.email)]

    def test_a_list_gets_its_row_back(self, decision: Decision, labeller: Any, page_client: Any) -> None:
        answer = page_client(labeller).post(
            at("decision-label", decision), {"verdict": "confirmed", "view": "row"}, headers=HTMX
        )
        assert answer.content.decode().lstrip().startswith(f'<li class="row" id="d-{decision.id}"')

    def test_a_key_pressed_twice_is_one_label_and_a_change_of_mind_another(
        self, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        client = page_client(labeller)
        for verdict, option in (("confirmed", ""), ("confirmed", ""), ("corrected", "0")):
            client.post(at("decision-label", decision), {"verdict": verdict, "option": option})
        assert [label[0] for label in judged(decision)[0]] == ["confirmed", "corrected"]

    @pytest.mark.parametrize(
        ("form", "says"),
        [
            ({"verdict": "splendid"}, "unknown"),
            ({"verdict": "corrected", "option": "3"}, "is not one of the options"),
            ({"verdict": "corrected", "option": "-1"}, "is not one of the options"),
            ({"verdict": "corrected", "option": "1"}, "is the chosen action"),
            ({"verdict": "confirmed", "option": "0"}, "given with confirmed"),
        ],
    )
    def test_a_label_that_makes_no_sense_is_refused_and_changes_nothing(
        self, form: dict[str, str], says: str, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        answer = page_client(labeller).post(at("decision-label", decision), form)
        assert answer.status_code == 400 and says in answer.content.decode()
        assert judged(decision) == ([], [])

    def test_a_note_is_kept_and_a_long_one_refused(self, decision: Decision, labeller: Any, page_client: Any) -> None:
        client = page_client(labeller)
        path = at("decision-label", decision)
        assert client.post(path, {"verdict": "confirmed", "note": "x" * 2001}).status_code == 400
        assert judged(decision) == ([], [])
        client.post(path, {"verdict": "confirmed", "note": " a <b>clear</b> case "})
        assert Label.objects.get().note == "a <b>clear</b> case"
        assert "a &lt;b&gt;clear&lt;/b&gt; case" in client.get(at("decision", decision)).content.decode()

    def test_taking_a_label_back_leaves_what_was_judged_before(
        self, decision: Decision, labeller: Any, admin: Any, page_client: Any
    ) -> None:
        FeedbackFactory(decision=decision, value="overridden")
        client = page_client(labeller)
        client.post(at("decision-label", decision), {"verdict": "confirmed"})
        answer = client.post(at("decision-unlabel", decision), {"view": "row"}, headers=HTMX)
        assert "overridden" in answer.content.decode() and "confirmed<" not in answer.content.decode()
        assert judged(decision)[0] == []
        assert Feedback.objects.filter(metric="verdict_withdrawn", supersedes__isnull=False).count() == 1
        listed = reverse("pages:decisions", args=[decision.workspace.slug])
        assert len(client.get(listed, {"verdict": "overridden"}).context["rows"]) == 1

    def test_only_the_newest_label_and_only_ones_own_can_be_taken_back(
        self, decision: Decision, labeller: Any, admin: Any, page_client: Any
    ) -> None:
        client = page_client(labeller)
        client.post(at("decision-label", decision), {"verdict": "confirmed"})
        page_client(admin).post(at("decision-label", decision), {"verdict": "corrected", "option": "0"})
        before = judged(decision)
        assert client.post(at("decision-unlabel", decision)).status_code == 409
        assert judged(decision) == before

    def test_a_viewer_sees_no_buttons_and_is_refused(self, decision: Decision, viewer: Any, page_client: Any) -> None:
        client = page_client(viewer)
        for page in (at("decision", decision), reverse("pages:decisions", args=[decision.workspace.slug])):
            assert 'data-key="c"' not in client.get(page).content.decode()
        answer = client.post(at("decision-label", decision), {"verdict": "confirmed"})
        assert answer.status_code == 403 and "labeller" in answer.content.decode()
        assert client.post(at("decision-unlabel", decision)).status_code == 403
        assert client.get(reverse("pages:label", args=[decision.workspace.slug])).status_code == 403
        assert judged(decision) == ([], [])

    def test_an_outsider_is_refused_under_either_address(
        self, decision: Decision, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        for slug in (None, other_workspace.slug):
            assert client.post(at("decision-label", decision, slug), {"verdict": "confirmed"}).status_code == 404
            assert client.post(at("decision-unlabel", decision, slug)).status_code == 404
        assert judged(decision) == ([], [])

    def test_afterwards_one_is_led_back_but_to_no_other_site(
        self, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        client = page_client(labeller)
        path = at("decision-label", decision)
        back = reverse("pages:decisions", args=[decision.workspace.slug]) + "?agent=filer"
        assert client.post(path, {"verdict": "confirmed", "next": back})["Location"] == back
        away = client.post(path, {"verdict": "confirmed", "next": "//example.com"})
        assert away["Location"] == at("decision", decision)

    def test_an_erased_decision_asks_for_no_judgement(
        self, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        client, path = page_client(labeller), at("decision-label", decision)
        for name in ("decision", "decisions-list"):
            assert path in client.get(at(name, decision)).content.decode()
        Decision.objects.filter(id=decision.id).update(content_hash=ERASED_HASH)
        assert "Erased decisions cannot be labelled" in client.get(at("decision", decision)).content.decode()
        for name in ("decision", "decisions-list"):
            assert path not in client.get(at(name, decision)).content.decode()
        for form in ({"verdict": "confirmed"}, {"skip": "1"}):
            assert client.post(path, form).status_code == 410
        assert judged(decision) == ([], []) and not Skip.objects.exists()

    def test_labels_take_a_post(self, decision: Decision, labeller: Any, page_client: Any) -> None:
        assert page_client(labeller).get(at("decision-label", decision)).status_code == 405
        assert judged(decision) == ([], [])


def test_many_options_put_the_likeliest_under_the_digits(agent: Any, viewer: Any, page_client: Any) -> None:
    options = [f"intent {n}" for n in range(12)]
    likely = [{"action": option, "probability": n / 66} for n, option in enumerate(options)]
    decision = DecisionFactory(agent=agent, options=options, action="intent 3", alternatives=likely)
    shown = page_client(viewer).get(at("decision", decision)).context["shown"]
    assert [(choice.key, choice.index) for choice in shown.choices[:2]] == [("1", 11), ("2", 10)]
    assert shown.choices[9].key == "" and not shown.few_choices
    assert len(shown.first_choices) == 9 and len(shown.more_choices) == 3


class TestQueue:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:label", args=[workspace.slug])

    def test_the_most_uncertain_unjudged_come_first(
        self, agent: Any, labeller: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        sure = [0.9, 0.2, 0.5, 0.4, 0.3, 0.1]
        made = {value: DecisionFactory(agent=agent, confidence=value) for value in sure}
        LabelFactory(decision=made[0.1])
        client = page_client(labeller)
        client.get(path)
        with django_assert_max_num_queries(15):
            page = client.get(path)
        assert [card.decision.confidence for card in page.context["cards"]] == [0.2, 0.3, 0.4, 0.5]
        assert page.context["waiting"] == 5 and page.context["done"] == 0

    def test_a_label_brings_the_ones_that_are_not_held_yet_and_counts(
        self, agent: Any, labeller: Any, path: str, page_client: Any
    ) -> None:
        made = [DecisionFactory(agent=agent, confidence=n / 10) for n in range(1, 8)]
        client = page_client(labeller)
        form = {
            "view": "queue",
            "verdict": "confirmed",
            "have": [str(decision.id) for decision in made[1:4]],
            "query": "agent=filer",
        }
        answer = client.post(at("decision-label", made[0]), form, headers=HTMX)
        assert [card.decision.id for card in answer.context["cards"]] == [made[4].id]
        assert answer.context["done"] == 1 and answer.context["waiting"] == 6
        assert judged(made[0])[0] == [("confirmed", None, labeller.email)]

    def test_a_skip_is_no_verdict_and_leaves_one_s_own_queue(
        self, agent: Any, labeller: Any, admin: Any, path: str, page_client: Any
    ) -> None:
        doubtful, other = (DecisionFactory(agent=agent, confidence=share) for share in (0.1, 0.2))
        client = page_client(labeller)
        for note in ("cannot tell", "still cannot"):
            answer = client.post(
                at("decision-label", doubtful), {"skip": "1", "note": note, "view": "queue"}, headers=HTMX
            )
        assert [card.decision.id for card in answer.context["cards"]] == [other.id]
        assert (answer.context["done"], answer.context["waiting"]) == (0, 1)
        assert judged(doubtful) == ([], [])
        assert Skip.objects.values_list("decision", "reviewer", "note").get() == (doubtful.id, labeller.pk, note)
        assert calculate_rewards(current_reward_spec(agent)).processed == 0
        others = page_client(admin).get(path).context
        assert [card.decision.id for card in others["cards"]] == [doubtful.id, other.id]
        client.post(at("decision-unlabel", doubtful), {"view": "queue"}, headers=HTMX)
        assert client.get(path).context["waiting"] == 2 and not Skip.objects.exists()
        client.post(at("decision-label", doubtful), {"skip": "1"})
        client.post(at("decision-label", doubtful), {"verdict": "confirmed"})
        assert judged(doubtful)[0] == [("confirmed", None, labeller.email)] and not Skip.objects.exists()

    def test_skips_that_were_written_as_verdicts_are_withdrawn(self, agent: Any, labeller: Any, by: Any) -> None:
        spec = current_reward_spec(agent)
        skipped, sent, earlier = DecisionFactory.create_batch(3, agent=agent)
        FeedbackFactory(decision=earlier, value="corrected")
        for decision in (skipped, earlier):
            LabelFactory(decision=decision, reviewer=labeller, verdict="ignored", note="cannot tell")
        label_decision(by=by, decision=sent, verdict="ignored")
        calculate_rewards(spec)
        assert {row.value for row in Reward.objects.all()} == {0.5}
        migration = import_module("decisions.migrations.0016_withdraw_skips_that_were_verdicts")
        for _ in range(2):
            migration.withdraw_skips(apps, None)
        assert set(Skip.objects.values_list("decision", "reviewer", "note")) == {
            (decision.id, labeller.pk, "cannot tell") for decision in (skipped, earlier)
        }
        assert [label.decision for label in Label.objects.all()] == [sent]
        assert calculate_rewards(spec).processed == 2
        newest = {row.decision_id: row.value for row in Reward.objects.order_by("version")}
        assert newest == {skipped.id: None, sent.id: 0.5, earlier.id: 0.375}

    def test_an_option_alone_corrects(self, decision: Decision, labeller: Any, page_client: Any) -> None:
        page_client(labeller).post(at("decision-label", decision), {"option": "0"})
        assert judged(decision)[0] == [("corrected", "finance", labeller.email)]

    def test_the_queue_keeps_the_filters_and_leaves_other_workspaces_out(
        self, agent: Any, workspace: Any, labeller: Any, other_workspace: Any, path: str, page_client: Any
    ) -> None:
        other = AgentFactory(workspace=workspace, slug="librarian")
        DecisionFactory(agent=agent)
        mine = DecisionFactory(agent=other)
        DecisionFactory(agent=AgentFactory(workspace=other_workspace, slug="librarian"))
        page = page_client(labeller).get(path, {"agent": "librarian", "verdict": "confirmed"})
        assert [card.decision.id for card in page.context["cards"]] == [mine.id]

    def test_the_end_says_what_comes_next(self, workspace: Any, labeller: Any, path: str, page_client: Any) -> None:
        client = page_client(labeller)
        assert "Show runs" in client.get(path).content.decode()
        assert "Label without filters" in client.get(path, {"agent": "filer"}).content.decode()

    def test_without_scripts_one_is_led_to_the_next(
        self, decision: Decision, labeller: Any, path: str, page_client: Any
    ) -> None:
        client = page_client(labeller)
        answer = client.post(
            at("decision-label", decision), {"verdict": "confirmed", "view": "queue", "next": path + "?agent=filer"}
        )
        assert answer["Location"] == path + "?agent=filer"
        assert client.get(path).context["done"] == 1
