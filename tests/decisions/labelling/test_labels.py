"""Labels: what a reviewer judges, and taking it back."""

import pytest
from django.urls import reverse

from decisions.labelling.labels import label_decision, record_verdict, withdraw_label
from decisions.models import Feedback, Label, Reward
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.actions import make_decision_to_correct
from tools.factories import DecisionFactory
from workspaces.access.actors import person
from workspaces.errors import Conflict
from workspaces.models import ApiKey

pytestmark = pytest.mark.django_db


class TestLabels:
    def test_a_label_is_feedback_and_earns_its_reward(self, api, labeller, agent):
        decision = DecisionFactory(agent=agent, action="travel")
        answer = api.person(labeller).post(
            f"decisions/{decision.id}/labels", {"verdict": "corrected", "corrected_action": "health", "note": "see it"}
        )
        assert answer.status_code == 201, answer.content
        label = Label.objects.get()
        assert (label.reviewer, label.corrected_action, label.note) == (labeller, "health", "see it")
        feedback = Feedback.objects.get()
        assert (feedback.decision_id, feedback.metric, feedback.value) == (decision.id, "verdict", "corrected")
        assert calculate_rewards(current_reward_spec(agent)).processed == 1
        shown = api("export:read").get(f"decisions/{decision.id}").json()
        assert [entry["verdict"] for entry in shown["labels"]] == ["corrected"]
        assert shown["rewards"][0]["value"] == pytest.approx(0.375)

    def test_a_text_corrects_a_call_of_an_agent_that_chats_and_is_a_note_elsewhere(self, workspace, by):
        for kind, right, note in (("tool_calls", "Which tea?", ""), ("ranking", None, "Which tea?")):
            label = record_verdict(
                by=by, decision=make_decision_to_correct(workspace, kind), verdict="corrected", correction="Which tea?"
            )
            assert (label.corrected_action, label.note) == (right, note)

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"verdict": "liked"}, "verdict"),
            ({}, "verdict"),
            ({"verdict": "confirmed", "corrected_action": "health"}, "corrected_action"),
            ({"verdict": "corrected", "corrected_action": "gardening"}, "corrected_action"),
            ({"verdict": "corrected", "corrected_action": "travel"}, "corrected_action"),
        ],
        ids=str,
    )
    def test_a_bad_label_is_refused_and_leaves_no_feedback(self, api, agent, fields, field):
        decision = DecisionFactory(agent=agent, action="travel")
        answer = api("feedback:write").post(f"decisions/{decision.id}/labels", fields)
        assert answer.status_code == 400
        assert field in {fault["field"] for fault in answer.json()["error"]["fields"]}
        assert not Label.objects.exists()
        assert not Feedback.objects.exists()


class TestWithdrawing:
    def test_a_program_that_labels_is_named(self, api, agent, viewer, page_client):
        decision = DecisionFactory(agent=agent, options=["travel", "health"], action="travel")
        client = api("feedback:write", "export:read")
        assert client.post(f"decisions/{decision.id}/labels", {"verdict": "confirmed"}).status_code == 201
        [label] = client.get(f"decisions/{decision.id}").json()["labels"]
        assert label["labelled_by"] == f"key:{ApiKey.objects.latest('created_at').prefix}"
        page = page_client(viewer).get(reverse("pages:decision", args=[decision.workspace.slug, decision.id]))
        assert label["labelled_by"] in page.content.decode()

    def test_rewards_no_longer_read_what_was_withdrawn(self, agent, labeller, workspace):
        by = person(labeller, workspace, "labeller")
        decision = DecisionFactory(agent=agent, action="travel")
        spec = current_reward_spec(agent)
        label_decision(by=by, decision=decision, verdict="corrected")
        label_decision(by=by, decision=decision, verdict="confirmed")
        calculate_rewards(spec)
        withdraw_label(by=by, decision=decision)
        calculate_rewards(spec)
        withdraw_label(by=by, decision=decision)
        calculate_rewards(spec)
        assert list(Reward.objects.order_by("version").values_list("value", flat=True)) == [
            pytest.approx(0.75),
            pytest.approx(0.375),
            None,
        ]
        assert Feedback.objects.count() == 4 and not Label.objects.exists()

    def test_nothing_of_ones_own_is_a_conflict(self, agent, by, admin, labeller, workspace):
        decision = DecisionFactory(agent=agent)
        label_decision(by=person(labeller, workspace, "labeller"), decision=decision, verdict="confirmed")
        for other in (by, person(admin, workspace, "admin")):
            with pytest.raises(Conflict):
                withdraw_label(by=other, decision=decision)
        assert Label.objects.count() == 1 and Feedback.objects.count() == 1
