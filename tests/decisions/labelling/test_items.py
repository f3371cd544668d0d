"""Items and their changes of status: an end reaches all its decisions, once, whatever came first."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction
from django.utils import timezone

from decisions.agents.kinds.expectations import METRICS, expected_minutes
from decisions.erasure.erasing import Person, erase_decisions, find_decisions
from decisions.ingest.item_ends import apply_item_outcomes, count_waiting
from decisions.ingest.items import StatusChangeIn, record_status_changes
from decisions.models import Feedback, Item, Project, StatusChange
from decisions.rewards.queueing import CALCULATE_REWARDS
from jobs.models import Job
from jobs.runner import run_job
from jobs.services import enqueue_job
from tests.decisions.conftest import in_another_connection, wait_for_a_waiter
from tools.factories import AgentFactory, DecisionFactory, ItemFactory, StatusChangeFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db

DONE = {"item_ref": "n1", "status": "DONE", "swimlane": "PROJECT", "priority": "HIGH", "minutes": 192, "alignment": 0.8}


def heard(decision):
    return {row.metric: row.value for row in Feedback.objects.filter(decision=decision)}


def report(api, *changes):
    answer = api("feedback:write").post("status-changes", list(changes))
    assert answer.status_code == 201, answer.content
    return answer.json()["kept"]


class TestExpectation:
    @pytest.mark.parametrize(
        ("swimlane", "priority", "minutes"),
        [
            ("EXPEDITE", "MEDIUM", 120),
            ("PROJECT", "HIGH", 384),
            ("HABIT", "LOW", 72),
            ("HOME", "", 180),
            ("", "LOW", None),
        ],
    )
    def test_minutes_by_swimlane_and_priority(self, swimlane, priority, minutes):
        assert expected_minutes(swimlane, priority) == (None if minutes is None else pytest.approx(minutes))


class TestAnEnd:
    def test_it_reaches_all_decisions_of_the_item_and_no_other(self, api, agent, workspace, other_workspace):
        mine = [DecisionFactory(agent=agent, item_ref="n1") for _ in range(3)]
        mine.append(DecisionFactory(agent=AgentFactory(workspace=workspace), item_ref="n1"))
        others = [DecisionFactory(agent=agent, item_ref="n2"), DecisionFactory(agent=agent)]
        others.append(DecisionFactory(agent=AgentFactory(workspace=other_workspace), item_ref="n1"))
        report(api, DONE)
        told = {
            "completion": "DONE",
            "cycles": 0,
            "time_ratio": 0.5,
            "blocked": False,
            "abandoned": False,
            "alignment": 0.8,
        }
        assert set(told) == set(METRICS)
        for decision in mine:
            assert heard(decision) == told
        assert not Feedback.objects.filter(decision__in=others).exists()
        assert {row.source for row in Feedback.objects.all()} == {"system"}
        assert all(row.id.version == 7 for row in Feedback.objects.all())

    def test_what_is_not_known_is_not_said(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        report(api, {"item_ref": "n1", "status": "COLD_STORAGE", "minutes": 10})
        assert heard(decision) == {"completion": "COLD_STORAGE", "cycles": 0, "blocked": False, "abandoned": True}

    def test_an_expectation_of_the_app_goes_before_the_swimlane_s(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        report(api, DONE | {"expected_minutes": 96})
        assert heard(decision)["time_ratio"] == 2

    def test_other_statuses_say_nothing_and_are_kept_on_the_item(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        change = {"item_ref": "n1", "title": "Flights", "project_ref": "o1", "project_name": "Travel", "labels": ["a"]}
        report(api, change | {"status": "ON_HOLD", "blocked": True}, {"item_ref": "n1", "status": "TODO"})
        assert heard(decision) == {}
        item = Item.objects.get(ref="n1")
        assert (item.title, item.status, item.labels, item.blocked, item.project_ref) == (
            "Flights",
            "TODO",
            ["a"],
            True,
            "o1",
        )
        assert Project.objects.get(ref="o1").name == "Travel"
        report(api, DONE)
        assert heard(decision)["blocked"] is True

    def test_being_put_away_after_being_done_is_no_second_end(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        report(api, DONE)
        report(api, {"item_ref": "n1", "status": "COLD_STORAGE"})
        assert heard(decision)["completion"] == "DONE"
        assert Feedback.objects.filter(decision=decision, metric="completion").count() == 1

    def test_opening_an_item_again_counts_as_a_cycle(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        start = timezone.now() - dt.timedelta(hours=4)
        statuses = ["TODO", "DONE", "TODO", "DONE"]
        moments = [(start + dt.timedelta(hours=hour)).isoformat() for hour in range(4)]
        changes = [{"item_ref": "n1", "status": s, "observed_at": m} for s, m in zip(statuses, moments, strict=True)]
        report(api, *reversed(changes))  # the clients' clocks decide, not the order of arrival
        rows = Feedback.objects.filter(decision=decision, metric="cycles").order_by("observed_at")
        assert [row.value for row in rows] == [0, 1]
        assert Item.objects.get(ref="n1").cycles == 1

    def test_a_change_from_earlier_leaves_the_item_as_it_is_now(self, api):
        report(api, {"item_ref": "n1", "status": "TODO", "swimlane": "HOME"})
        report(api, {"item_ref": "n1", "status": "ON_HOLD", "swimlane": "HABIT", "observed_at": "2026-01-01T00:00:00Z"})
        item = Item.objects.get(ref="n1")
        assert (item.status, item.swimlane) == ("TODO", "HOME")
        assert StatusChange.objects.count() == 2

    def test_it_takes_the_same_statements_for_many_decisions(self, by, agent, django_assert_max_num_queries):
        from decisions.ingest.items import StatusChangeIn, record_status_changes

        for number in range(40):
            DecisionFactory(agent=agent, item_ref=f"n{number % 4}")
        changes = [(index, StatusChangeIn(item_ref=f"n{index}", status="DONE")) for index in range(4)]
        with django_assert_max_num_queries(16):
            record_status_changes(by=by, items=changes)
        assert Feedback.objects.filter(metric="completion").count() == 40


class TestRepeats:
    def test_the_same_id_or_external_id_is_kept_once(self, api, agent):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        for name in ({"id": str(uuid7())}, {"external_id": "change-7"}):
            (first,) = report(api, DONE | name)
            (again,) = report(api, DONE | name)
            assert (again["id"], again["duplicate"]) == (first["id"], True)
            refused = api("feedback:write").post("status-changes", DONE | name | {"minutes": 1})
            assert refused.json()["error"]["code"] == "id_conflict"
        assert StatusChange.objects.count() == 2
        assert Feedback.objects.filter(decision=decision, metric="time_ratio").count() == 1  # DONE after DONE is no end

    def test_bad_ones_are_named_and_the_others_kept(self, api, other_workspace):
        theirs = DecisionFactory(agent=AgentFactory(workspace=other_workspace))
        answer = api("feedback:write").post(
            "status-changes",
            [
                {"item_ref": "n1", "status": "TODO"},
                {"item_ref": "n2"},
                {"item_ref": "n3", "status": "TODO", "decision_id": str(theirs.id)},
                {"item_ref": "n4", "status": "TODO", "alignment": 2},
            ],
        )
        assert answer.status_code == 207
        assert [(e["index"], e["fields"][0]["field"]) for e in answer.json()["errors"]] == [
            (1, "status"),
            (2, "decision_id"),
            (3, "alignment"),
        ]
        assert [item.ref for item in Item.objects.all()] == ["n1"]


class TestWhoComesLate:
    def test_a_decision_after_its_item_s_end_hears_of_it_with_the_next_spread(self, api, agent, workspace):
        report(api, DONE)
        assert count_waiting(workspace) == 0
        body = {"agent": "filer", "state": {"text": "x"}, "action": "travel", "policy_name": "p", "item_ref": "n1"}
        late = api().post("decisions", body).json()["kept"][0]["id"]
        assert count_waiting(workspace) == 1
        spread = apply_item_outcomes(workspace=workspace)
        assert (spread.changes, spread.decisions) == (1, 1)
        assert heard(late)["completion"] == "DONE"
        assert count_waiting(workspace) == 0

    def test_spreading_again_writes_nothing_again(self, agent, workspace):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        StatusChangeFactory(item=ItemFactory(workspace=workspace, ref="n1"))
        assert apply_item_outcomes(workspace=workspace).decisions == 1
        before = list(Feedback.objects.values_list("id", flat=True))
        assert apply_item_outcomes(workspace=workspace, again=True).decisions == 0
        assert list(Feedback.objects.values_list("id", flat=True)) == before
        assert "completion" in heard(decision)

    def test_a_limit_is_kept_and_the_rest_waits(self, agent, workspace, other_workspace):
        for number in range(5):
            DecisionFactory(agent=agent, item_ref=f"n{number}")
            StatusChangeFactory(item=ItemFactory(workspace=workspace, ref=f"n{number}"))
        StatusChangeFactory(item=ItemFactory(workspace=other_workspace, ref="n1"))
        assert apply_item_outcomes(workspace=workspace, limit=2).changes == 2
        assert count_waiting(workspace) == 3
        assert apply_item_outcomes(workspace=workspace).changes == 3

    def test_the_nightly_job_spreads_what_waits_in_every_workspace(self, agent, workspace):
        decision = DecisionFactory(agent=agent, item_ref="n1")
        StatusChangeFactory(item=ItemFactory(workspace=workspace, ref="n1"))
        job = enqueue_job(kind=CALCULATE_REWARDS, dedupe_key="test")
        run_job(job.id)
        assert Job.objects.get(id=job.id).state == "succeeded"
        assert heard(decision)["completion"] == "DONE"


class TestAfterAnErasure:
    """What was erased does not come back with the next report."""

    def erase(self, workspace):
        ids = find_decisions(workspace=workspace, person=Person("unit", "ann"), after=None, size=100)
        erase_decisions(workspace=workspace, ids=ids, secret=b"s" * 32)

    def everything(self):
        return [list(model.objects.order_by("pk").values()) for model in (Item, Project, StatusChange, Feedback)]

    @pytest.fixture
    def told(self, api, agent, workspace):
        """A change by id and one by the app's own name, of ann's item in ann's project; the item then erased."""
        decision = DecisionFactory(agent=agent, unit="ann", item_ref="n1", project_ref="p1")
        first = {
            "item_ref": "n1",
            "status": "DOING",
            "title": "Ann's letter",
            "labels": ["Ann"],
            "project_ref": "p1",
            "project_name": "Ann's opus",
        }
        sent = [
            first | {"id": str(uuid7())},
            first | {"external_id": "app-7", "status": "DONE"},
            first | {"id": str(uuid7()), "decision_id": str(decision.id)},
        ]
        report(api, *sent)
        assert Item.objects.get().title == "Ann's letter"
        self.erase(workspace)
        assert (Item.objects.get().title, Project.objects.get().name) == ("erased", "erased")
        return sent

    @pytest.mark.parametrize("repeat", [0, 1, 2])
    def test_a_repeat_is_refused_and_nothing_changes(self, api, told, repeat):
        before = self.everything()
        answer = api("feedback:write").post("status-changes", told[repeat])
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert self.everything() == before

    @pytest.mark.parametrize(
        "other",
        [
            {"id": None},
            {"external_id": "app-7", "item_ref": "n2"},
            {"decision_id": "its", "item_ref": "n2"},
        ],
        ids=["its item", "its name", "its decision"],
    )
    def test_so_is_what_is_told_of_it_anew(self, api, told, other):
        fields = {"id": str(uuid7()), "item_ref": "n1", "status": "DONE", "title": "Ann's letter"} | other
        if other.get("decision_id"):
            fields["decision_id"] = told[2]["decision_id"]
        before = self.everything()
        answer = api("feedback:write").post("status-changes", {k: v for k, v in fields.items() if v is not None})
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert self.everything() == before

    def test_of_a_batch_the_others_are_kept(self, api, told):
        answer = api("feedback:write").post("status-changes", [*told, {"item_ref": "n9", "status": "TODO"}])
        assert answer.status_code == 207
        assert [kept["index"] for kept in answer.json()["kept"]] == [3]
        assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [
            (0, "erased"), (1, "erased"), (2, "erased"),
        ]  # fmt: skip
        assert sorted(Item.objects.values_list("title", flat=True)) == ["", "erased"]

    def test_an_item_that_a_new_decision_is_about_is_new(self, api, told, agent):
        DecisionFactory(agent=agent, unit="bob", item_ref="n1")
        report(api, {"item_ref": "n1", "status": "TODO", "title": "Bob's letter"})
        assert Item.objects.get(ref="n1").title == "Bob's letter"

    def test_nobody_corrects_what_is_gone(self, api, told):
        before = self.everything()
        answer = api("feedback:write").request(
            "PATCH",
            f"/api/status-changes/{told[0]['id']}/feedback",
            {"feedback": "CORRECTED", "correction": {"labels": ["Ann"]}},
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert self.everything() == before

    def test_another_workspace_hears_nothing_of_it(self, api, told, other_workspace):
        answer = api.of(other_workspace).post("status-changes", {"item_ref": "n1", "status": "DONE"})
        assert answer.status_code == 201

    def test_a_conflict_makes_no_item_and_renames_no_project(self, api):
        known = str(uuid7())
        report(api, {"item_ref": "n1", "status": "TODO", "id": known, "project_ref": "p1", "project_name": "Paint"})
        before = self.everything()
        other = {"item_ref": "n2", "status": "TODO", "id": known, "project_ref": "p1", "project_name": "Print"}
        answer = api("feedback:write").post("status-changes", other)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "id_conflict")
        assert self.everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_change_that_comes_while_its_item_is_being_erased_is_refused(by, agent, workspace):
    DecisionFactory(agent=agent, unit="ann", item_ref="n1")
    ItemFactory(workspace=workspace, ref="n1", title="Ann's letter")
    change = StatusChangeIn(item_ref="n1", status="DONE", title="Ann's letter")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            TestAfterAnErasure().erase(workspace)
            sent = pool.submit(in_another_connection, lambda: record_status_changes(by=by, items=[(0, change)]))
            wait_for_a_waiter()
        outcome = sent.result(timeout=60)
    assert ([error.code for error in outcome.errors], outcome.kept) == (["erased"], [])
    assert Item.objects.get().title == "erased"
    assert not StatusChange.objects.exists()
