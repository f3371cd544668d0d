"""The page that lists decisions: filters, order, chart and pages."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import Decision
from tests.decisions.pages.decision_pages import HTMX
from tools.factories import (
    AgentFactory,
    DecisionFactory,
    ExposureFactory,
    FeedbackFactory,
    LabelFactory,
    ModelVersionFactory,
    RewardFactory,
    uuid7_at,
)


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
        Decision.objects.filter(id=plain.id).update(finish_reason="length")
        Decision.objects.filter(id=tried.id).update(finish_reason="stop")
        assert found(finish_reason="length") == found(finish_reason="incomplete") == [plain.id]
        assert found(finish_reason="stop") == [tried.id] and found(finish_reason="cut") == []
        assert client.get(path, {"finish_reason": "tired"}).status_code == 400
        pages = {reason: client.get(path, {"finish_reason": reason}).content.decode() for reason in ("length", "stop")}
        assert [">incomplete<" in page for page in pages.values()] == [True, False]

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

    @pytest.mark.slow
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

    def test_the_decisions_of_a_unit_are_found_however_old_with_the_other_filters(
        self, agent: Any, workspace: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        old = DecisionFactory(agent=agent, unit="ann", id=uuid7_at(timezone.now() - dt.timedelta(days=90)))
        DecisionFactory(agent=agent, unit="bob", item_ref="ann", state={"text": "ann"})
        other = DecisionFactory(agent=AgentFactory(workspace=workspace, slug="librarian"), unit="ann")
        client = page_client(viewer)
        page = client.get(path, {"unit": "ann"})
        assert [row.decision.id for row in page.context["rows"]] == [other.id, old.id]
        assert [(chip.name, chip.value, chip.query) for chip in page.context["chips"]] == [("Unit", "ann", "")]
        assert '<input type="hidden" name="unit" value="ann">' in page.content.decode()
        page = client.get(path, {"unit": "ann", "agent": "filer"})
        assert [row.decision.id for row in page.context["rows"]] == [old.id]
        assert client.get(path, {"unit": "ann", "q": "bob"}).context["rows"] == []
        assert "No decisions match these filters" in client.get(path, {"unit": "carl"}).content.decode()
        detail = client.get(reverse("pages:decision", args=[workspace.slug, other.id]), {"unit": "ann"})
        assert (detail.context["newer"], detail.context["older"]) == (None, old.id)

    def test_a_unit_s_list_goes_on_page_by_page(
        self, agent: Any, viewer: Any, path: str, page_client: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("decisions.queries.browse.NAMED", 30)
        made = [str(DecisionFactory(agent=agent, unit="ann").id) for _ in range(40)]
        DecisionFactory(agent=agent, unit="bob")
        client, seen, query = page_client(viewer), [], "unit=ann"
        while query:
            page = client.get(f"{path}?{query}")
            seen += [str(row.decision.id) for row in page.context["rows"]]
            query = page.context["older"] or page.context["go_on"]
        assert seen == made[::-1]

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
