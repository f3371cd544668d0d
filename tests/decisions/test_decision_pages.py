"""The ledger's pages: reading by anyone of the workspace, judging by labellers and admins."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Decision, Feedback, Label
from tests.factories import (
    OPTIONS,
    AgentFactory,
    DecisionFactory,
    ExposureFactory,
    FeedbackFactory,
    LabelFactory,
    RewardFactory,
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
        assert "No decision yet" in page_client(viewer).get(path).content.decode()

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
        assert "Nothing here" in client.get(path, {"agent": "unknown"}).content.decode()

    def test_htmx_gets_the_list_alone_and_history_the_whole_page(
        self, decision: Decision, viewer: Any, path: str, page_client: Any
    ) -> None:
        client = page_client(viewer)
        part = client.get(path, headers=HTMX)
        assert part.content.decode().lstrip().startswith('<div id="decisions">')
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
        with django_assert_max_num_queries(11):
            assert len(client.get(path).context["rows"]) == 25

    def test_decisions_of_another_workspace_are_not_listed(
        self, decision: Decision, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        page = page_client(outsider).get(reverse("pages:decisions", args=[other_workspace.slug]))
        assert page.context["rows"] == []


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
        assert answer.status_code == 200 and "right one" in answer.content.decode()
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
            ({"verdict": "corrected", "option": "3"}, "was not offered"),
            ({"verdict": "corrected", "option": "-1"}, "was not offered"),
            ({"verdict": "corrected", "option": "1"}, "is what was decided"),
            ({"verdict": "confirmed", "option": "0"}, "given with confirmed"),
        ],
    )
    def test_a_label_that_makes_no_sense_is_refused_and_changes_nothing(
        self, form: dict[str, str], says: str, decision: Decision, labeller: Any, page_client: Any
    ) -> None:
        answer = page_client(labeller).post(at("decision-label", decision), form)
        assert answer.status_code == 400 and says in answer.content.decode()
        assert judged(decision) == ([], [])

    def test_a_viewer_sees_no_buttons_and_is_refused(self, decision: Decision, viewer: Any, page_client: Any) -> None:
        client = page_client(viewer)
        for page in (at("decision", decision), reverse("pages:decisions", args=[decision.workspace.slug])):
            assert 'data-key="c"' not in client.get(page).content.decode()
        answer = client.post(at("decision-label", decision), {"verdict": "confirmed"})
        assert answer.status_code == 403 and "labeller" in answer.content.decode()
        assert judged(decision) == ([], [])

    def test_an_outsider_is_refused_under_either_address(
        self, decision: Decision, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        for slug in (None, other_workspace.slug):
            assert client.post(at("decision-label", decision, slug), {"verdict": "confirmed"}).status_code == 404
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
