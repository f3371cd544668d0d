"""Feedback from the notes app, on decisions and on changes of status."""

import pytest

from decisions.models import Feedback, Item, Label
from decisions.notes_app import examples as example
from tests.decisions.notes_app.notes_requests import FILER, T, judge, lines, recorded, shape
from tools.factories import (
    AgentFactory,
    DecisionFactory,
    ItemFactory,
    StatusChangeFactory,
    uuid7,
)

pytestmark = pytest.mark.django_db


class TestFeedback:
    def test_the_decision_comes_back_judged(self, app):
        made = recorded(app)
        answer = judge(app, made, "CONFIRMED")
        assert answer.status_code == 200
        assert (answer.json()["id"], answer.json()["userFeedback"]) == (made["id"], "CONFIRMED")
        assert answer.json()["feedbackAt"]
        assert judge(app, made, "CONFIRMED").json()["userFeedback"] == "CONFIRMED"
        assert Label.objects.count() == 1  # the same click twice

    def test_a_correction_may_be_fields_or_words_and_is_held_to_the_schema(self, app):
        made = recorded(app)
        fixed = judge(app, made, "CORRECTED", correction={"status": "ON_HOLD"}).json()
        assert fixed["userCorrection"] == {"status": "ON_HOLD"}
        assert Label.objects.get().corrected_action == FILER["action"] | {"status": "ON_HOLD"}
        assert judge(app, made, "OVERRIDDEN", correction="not mine").json()["userCorrection"] == "not mine"
        before = Label.objects.count(), Feedback.objects.count()
        for correction, place in [
            ({"status": "GONE"}, "correction.status"),
            ({"status": "TODO"}, "correction"),
            (3, "correction"),
        ]:
            refused = judge(app, made, "CORRECTED", correction=correction)
            assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (400, place)
        assert judge(app, made, "CONFIRMED", correction={"status": "ON_HOLD"}).status_code == 400
        assert (Label.objects.count(), Feedback.objects.count()) == before

    def test_a_correction_comes_back_as_it_was_sent_wherever_it_is_read(self, app):
        """The fields, the whole action that they make, and words; of the same judgement the form that was sent last."""
        made = recorded(app)
        whole = FILER["action"] | {"status": "ON_HOLD"}
        for feedback, correction in [
            ("CORRECTED", {"status": "ON_HOLD"}),
            ("CORRECTED", whole),
            ("CORRECTED", {"status": "ON_HOLD", "priority": "HIGH"}),
            ("OVERRIDDEN", "  not mine\n"),
            ("OVERRIDDEN", {"labels": [], "reasoning": ""}),
        ]:
            assert judge(app, made, feedback, correction=correction).json()["userCorrection"] == correction
            [listed], [exported] = app.get(f"{T}/decisions").json(), lines(app.get(f"{T}/export"))
            assert listed["userCorrection"] == exported["metadata"]["userCorrection"] == correction
        assert Label.objects.count() == 3
        assert judge(app, made, "CONFIRMED").json()["userCorrection"] is None

    @pytest.mark.parametrize(
        "body", [{}, {"feedback": "LIKED"}, {"feedback": "confirmed"}, {"feedback": 1}, [], {"x": 1}]
    )
    def test_a_bad_value_is_a_400(self, app, body):
        made = recorded(app)
        assert app.request("PATCH", f"/api/decisions/{made['id']}/feedback", body).status_code == 400
        assert not Label.objects.exists()

    def test_someone_else_s_is_not_there(self, app, other_workspace):
        theirs = DecisionFactory(agent=AgentFactory(workspace=other_workspace))
        made = recorded(app)
        for name in (theirs.id, uuid7(), "clx0a1b2c"):
            assert judge(app, {"id": name}, "CONFIRMED").status_code == 404
        assert judge(app, made, "CONFIRMED", userId="user-2").status_code == 404
        assert not Label.objects.exists()
        assert judge(app, made, "CONFIRMED", userId="user-1").status_code == 200


class TestStatusChanges:
    @pytest.fixture
    def change(self, app, workspace):
        made = recorded(app)
        item = ItemFactory(workspace=workspace, ref="item-1", swimlane="PROJECT", priority="HIGH")
        return StatusChangeFactory(
            item=item, external_id="change-1", decision_id=made["id"], from_status="", to_status="TODO", outcome=""
        )

    def send(self, app, name, **body):
        return app.request("PATCH", f"/api/status-changes/{name}/feedback", body)

    def test_a_correction_holds_for_the_item_and_reaches_the_decision(self, app, change):
        correction = {"swimlane": "HOME", "priority": "LOW", "labels": ["later"]}
        answer = self.send(app, "change-1", feedback="CORRECTED", correction=correction)
        assert answer.status_code == 200, answer.content
        assert shape(answer.json()) == shape(example.CHANGE)
        assert answer.json()["userCorrection"] == correction
        item = Item.objects.get(ref="item-1")
        assert (item.swimlane, item.priority, item.labels) == ("HOME", "LOW", ["later"])
        label = Label.objects.get()
        assert (label.verdict, label.corrected_action["swimlane"]) == ("corrected", "HOME")

    def test_by_our_id_and_without_a_decision(self, app, workspace):
        change = StatusChangeFactory(item=ItemFactory(workspace=workspace))
        assert self.send(app, change.id, feedback="CONFIRMED").json()["userFeedback"] == "CONFIRMED"
        assert not Label.objects.exists()

    @pytest.mark.parametrize(
        "body",
        [
            {"feedback": "LIKED"},
            {"feedback": "CONFIRMED", "correction": {"swimlane": "HOME"}},
            {"feedback": "CORRECTED", "correction": {"swimlane": 3}},
            {"feedback": "CORRECTED", "correction": {"labels": "later"}},
        ],
    )
    def test_what_is_not_usable_changes_nothing(self, app, change, body):
        assert self.send(app, "change-1", **body).status_code == 400
        change.refresh_from_db()
        assert (change.verdict, Item.objects.get(ref="item-1").swimlane) == ("", "PROJECT")
        assert not Label.objects.exists()

    def test_someone_else_s_is_not_there(self, app, other_workspace):
        theirs = StatusChangeFactory(item=ItemFactory(workspace=other_workspace), external_id="theirs")
        for name in (theirs.id, "theirs", uuid7()):
            assert self.send(app, name, feedback="CONFIRMED").status_code == 404
        theirs.refresh_from_db()
        assert theirs.verdict == ""
