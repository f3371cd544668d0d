"""One decision's page and labelling: reading by anyone of the workspace, labels by labellers and admins."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Decision, Feedback, Label, Skip
from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tests.decisions.pages.decision_pages import HTMX, at
from tools.factories import (
    AgentFactory,
    DecisionFactory,
    ExposureFactory,
    FeedbackFactory,
    LabelFactory,
    RewardFactory,
)


def judged(decision: Decision) -> tuple[list[Any], list[Any]]:
    labels = (
        Label.objects.filter(decision=decision)
        .order_by("id")
        .values_list("verdict", "corrected_action", "reviewer__email")
    )
    return list(labels), list(Feedback.objects.filter(decision=decision).values_list("metric", "value"))


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

    def test_it_shows_the_app_s_user_item_and_project(self, agent: Any, viewer: Any, page_client: Any) -> None:
        of_app = {"user_ref": "<b>ann</b>", "item_ref": "note 7", "project_ref": "opus-1"}
        decision = DecisionFactory(agent=agent, unit="ticket-7", **of_app)
        page = page_client(viewer).get(reverse("pages:decision", args=[agent.workspace.slug, decision.id]))
        assert '<dt>User</dt><dd dir="auto">&lt;b&gt;ann&lt;/b&gt;</dd>' in page.content.decode()
        assert '?q=note%207" dir="auto">note 7</a>' in page.content.decode()
        assert '<dt>Project</dt><dd dir="auto">opus-1</dd>' in page.content.decode()
        without = DecisionFactory(agent=agent, unit="ticket-7")
        page = page_client(viewer).get(reverse("pages:decision", args=[agent.workspace.slug, without.id]))
        assert not [name for name in ("User", "Item", "Project") if f"<dt>{name}</dt>" in page.content.decode()]

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
