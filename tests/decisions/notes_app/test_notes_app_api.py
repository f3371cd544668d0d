"""The notes app's endpoints, by requests as that app sends them: paths, camelCase, status codes and shapes."""

import json
import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from decisions.models import Agent, Decision, Reward, StatusChange
from decisions.notes_app import examples as example
from decisions.notes_app import urls
from models_registry.versions.services import register_model
from tests.decisions.notes_app.notes_requests import FILER, KEY, RETRIEVER, T, judge, lines, recorded, shape
from tools.factories import (
    AgentFactory,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    ItemFactory,
    ModelVersionFactory,
    ProjectFactory,
    StatusChangeFactory,
    TrainingRunFactory,
    WorkspaceFactory,
    uuid7,
)
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


class TestRecord:
    def test_the_decision_comes_back_with_its_id(self, app):
        made = recorded(app, nextState={"filed": True})
        assert set(made) == set(example.DECISION)
        decision = Decision.objects.get(id=made["id"])
        assert (decision.item_ref, decision.project_ref, decision.user_ref) == ("item-1", "opus-1", "user-1")
        assert (decision.unit, decision.policy_name) == ("item-1", "gpt-4.1-mini-20250101")
        assert made["confidence"] == 0.9  # the action's own
        assert made["item"] == {"id": "item-1", "title": "Flights", "status": None}
        assert made["opus"] == {"id": "opus-1", "name": "Travel"}
        assert made["alternativeActions"] == [{"status": "ON_HOLD"}]
        assert made["nextState"] == {"filed": True}

    def test_every_field_comes_back_as_it_was_sent(self, app):
        sent = FILER | {
            "state": FILER["state"] | {"context": {"n": [1, 2.5, None, True, "é\U0001f600"], "empty": {}}},
            "action": FILER["action"] | {"reasoning": ""},
            "confidence": 0.25,
            "reasoning": "  Two\nlines. ",
            "nextState": {"filed": {"at": "2026-11-20T08:00:00.000Z"}},
            "modelVersion": "filer:007",
            "alternativeActions": [
                {"status": "ON_HOLD"},
                "TRASH",
                3,
                None,
                {"action": {"status": "TRASH"}},
                {"action": {"status": "TRASH"}, "probability": None},
                {"action": {"status": "TRASH"}, "probability": 0.25},
                {"action": "TRASH", "confidence": 0.1},
            ],
        }
        made = recorded(app, **sent)
        [listed] = app.get(f"{T}/decisions").json()
        for told in (made, listed):
            assert {name: told[name] for name in sent} == sent
        without = recorded(app, alternativeActions=None, reasoning=None, itemId=None, opusId=None, userId=None)
        assert {without[name] for name in ("alternativeActions", "itemId", "opusId", "userId")} == {None}
        empty = recorded(app, alternativeActions=[], nextState={}, reasoning="")
        assert (empty["alternativeActions"], empty["nextState"], empty["reasoning"]) == ([], {}, "")

    def test_a_version_of_ours_is_one(self, app, agents):
        version = ModelVersionFactory(registered_model=agents["RETRIEVER"].registered_model)
        made = app.post(f"{T}/decisions/record", RETRIEVER).json()
        assert made["modelVersion"] == "retriever:1"
        assert Decision.objects.get(id=made["id"]).model_version == version
        assert Decision.objects.get(id=made["id"]).unit == "user-1"
        outside = app.post(f"{T}/decisions/record", RETRIEVER | {"modelVersion": "retriever:9"}).json()
        assert Decision.objects.get(id=outside["id"]).policy_name == "retriever:9"

    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"action": {"status": "DONE"}}, "action.status"),
            ({"state": {}}, "state.item"),
            ({"agentType": "BARBER"}, "agentType"),
            ({"confidence": 2}, "confidence"),
            ({"colour": "red"}, "colour"),
            ({"itemId": ""}, "itemId"),
            ({"modelVersion": ""}, "modelVersion"),
            ({"state": "x"}, "state"),
            ({"alternativeActions": [{"action": 1, "probability": 3}]}, "alternativeActions[0].probability"),
            (
                {
                    "agentType": "PRIORITIZER",
                    "state": {"todoItems": [{"id": "a"}]},
                    "action": {"recommended_item_id": "b"},
                },
                "action.recommended_item_id",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused_by_its_place(self, app, change, place):
        refused = app.post(f"{T}/decisions/record", FILER | change)
        assert refused.status_code == 400, refused.content
        assert refused.json()["error"]["fields"][0]["field"] == place
        assert not Decision.objects.exists()

    def test_a_missing_field_is_named(self, app):
        refused = app.post(f"{T}/decisions/record", {name: FILER[name] for name in FILER if name != "modelVersion"})
        assert refused.json()["error"]["fields"][0]["field"] == "modelVersion"


class TestList:
    def test_newest_first_with_item_and_opus_as_they_were_reported_since(self, app, workspace):
        first, second = recorded(app), recorded(app, itemId="item-2", opusId=None)
        ItemFactory(workspace=workspace, ref="item-1", title="Flights to Oslo", status="DONE")
        ProjectFactory(workspace=workspace, ref="opus-1", name="Travels")
        shown = app.get(f"{T}/decisions?agentType=FILER").json()
        assert [one["id"] for one in shown] == [second["id"], first["id"]]
        assert shown[1]["item"] == {"id": "item-1", "title": "Flights to Oslo", "status": "DONE"}
        assert shown[1]["opus"] == {"id": "opus-1", "name": "Travels"}
        assert shown[0]["opus"] is None
        assert app.get(f"{T}/decisions?agentType=STORER").json() == []

    def test_it_says_which_runs_used_a_decision(self, app, agents):
        """Those that made a version: here two learnt from it and one measured on it; one failed and one is other's."""
        used, measured, unused = recorded(app), recorded(app), recorded(app)
        filer = {"agent": agents["FILER"], "workspace": agents["FILER"].workspace}
        learnt, held, failed = (DatasetSnapshotFactory(**filer) for _ in range(3))
        for dataset, decision in ((learnt, used), (held, used), (held, measured), (failed, unused)):
            DatasetItemFactory(dataset=dataset, decision=Decision.objects.get(id=decision["id"]))
        over = {"state": "succeeded", "started_at": timezone.now(), "finished_at": timezone.now()}

        def version():
            return ModelVersionFactory(registered_model=agents["FILER"].registered_model)

        other = DatasetSnapshotFactory(**filer)
        TrainingRunFactory(**filer, dataset=learnt, **over, produced_version=version())
        replayed = TrainingRunFactory(**filer, dataset=other, replay=learnt, **over, produced_version=version())
        judged = TrainingRunFactory(**filer, dataset=other, heldout=held, **over, produced_version=version())
        TrainingRunFactory(**filer, dataset=failed, **over | {"state": "failed"})
        TrainingRunFactory(**filer, dataset=failed)

        shown = {one["id"]: one for one in app.get(f"{T}/decisions").json()}
        told = {
            one["id"]: tuple(shown[one["id"]][name] for name in ("usedInTraining", "usedInValidation", "trainingRunId"))
            for one in (used, measured, unused)
        }
        assert told == {
            used["id"]: (True, True, str(replayed.id)),
            measured["id"]: (False, True, str(judged.id)),
            unused["id"]: (False, False, None),
        }

    def test_filters_by_reward_and_feedback(self, app):
        good, bad, none = recorded(app), recorded(app), recorded(app)
        judge(app, good, "CONFIRMED")
        judge(app, bad, "OVERRIDDEN")
        app.post(f"{T}/calculate-pending")

        def ids(query):
            return {one["id"] for one in app.get(f"{T}/decisions?{query}").json()}

        assert ids("") == {good["id"], bad["id"], none["id"]}
        assert ids("requireReward=true") == ids("requireFeedback=true") == {good["id"], bad["id"]}
        assert ids("minReward=0&requireReward=true") == {good["id"]}
        assert ids("maxReward=0&requireReward=true") == {bad["id"]}
        assert len(ids("limit=1")) == 1

    @pytest.mark.parametrize(
        "query",
        ["agentType=X", "minReward=much", "maxReward=nan", "requireReward=2", "limit=0", "limit=many", "limit=²"],
    )
    def test_a_query_that_makes_no_sense_is_named(self, app, query):
        refused = app.get(f"{T}/decisions?{query}")
        assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (400, query.split("=")[0])

    def test_the_number_of_statements_does_not_grow(self, app, workspace, agents, django_assert_max_num_queries):
        for number in range(30):
            DecisionFactory(agent=agents["FILER"], item_ref=f"i{number}", state=FILER["state"], action=FILER["action"])
        with django_assert_max_num_queries(16):
            assert len(app.get(f"{T}/decisions").json()) == 30


class TestRewards:
    def test_of_given_ids_those_without_a_reward_get_one(self, app, other_workspace):
        judged, unjudged = recorded(app), recorded(app)
        judge(app, judged, "CONFIRMED")
        theirs = FeedbackFactory(decision=DecisionFactory(agent=AgentFactory(workspace=other_workspace))).decision
        body = {"decisionIds": [judged["id"], unjudged["id"], str(theirs.id), str(uuid7()), "clx0a1b2c"]}
        answer = app.post(f"{T}/decisions", body)
        assert answer.status_code == 200
        [reward] = answer.json()["decisions"]
        assert (answer.json()["updated"], reward["id"], reward["reward"]) == (1, judged["id"], pytest.approx(0.99))
        # Right at a confidence of 0.9.
        assert reward["components"] == {"verdict": 1.0, "calibration": pytest.approx(-0.1)}
        assert app.post(f"{T}/decisions", body).json() == {"updated": 0, "decisions": []}
        assert not Reward.objects.filter(decision=theirs).exists()

    @pytest.mark.parametrize("ids", [None, "a", {}, [1], ["x"] * 1001])
    def test_ids_that_are_no_list_of_texts_are_refused(self, app, ids):
        assert app.post(f"{T}/decisions", {"decisionIds": ids}).status_code == 400

    def test_everything_pending_is_calculated_also_without_an_item_and_more_than_a_hundred(self, app, agents):
        for _ in range(120):
            FeedbackFactory(decision=DecisionFactory(agent=agents["FILER"]))
        alone = app.post(f"{T}/decisions/record", RETRIEVER).json()
        judge(app, alone, "CONFIRMED")
        assert app.get(f"{T}/calculate-pending").json()["pendingRewards"] == 121
        done = app.post(f"{T}/calculate-pending").json()
        assert done == {"success": True, "processed": 121, "errors": 0, "message": done["message"]}
        assert Reward.objects.get(decision=alone["id"]).components["retriever.acceptance"] == {"value": 1.0}
        assert app.get(f"{T}/calculate-pending").json()["pendingRewards"] == 0
        assert app.post(f"{T}/calculate-pending").json()["processed"] == 0

    def test_late_feedback_is_pending_again_and_changes_the_reward(self, app):
        made = recorded(app)
        judge(app, made, "CONFIRMED")
        app.post(f"{T}/calculate-pending")
        judge(app, made, "CORRECTED", correction={"status": "ON_HOLD"})
        assert app.get(f"{T}/calculate-pending").json()["pendingRewards"] == 1
        app.post(f"{T}/calculate-pending")
        assert app.get(f"{T}/decisions").json()[0]["reward"] == pytest.approx(-0.59)

    def test_the_command_does_the_same_for_one_kind(self, app, agents, capsys):
        judge(app, recorded(app), "CONFIRMED")
        judge(app, app.post(f"{T}/decisions/record", RETRIEVER).json(), "CONFIRMED")
        call_command("calculate_rewards", "--agent-type", "FILER", "--json")
        assert json.loads(capsys.readouterr().out) == {"processed": 1, "errors": 0, "judges_left_out": []}
        call_command("calculate_rewards")
        assert capsys.readouterr().out == "1 rewards calculated, 0 with an error\n"
        with pytest.raises(SystemExit, match="2"):
            call_command("calculate_rewards", "--agent-type", "GUARDRAIL")


class TestOutcomes:
    def test_an_end_that_waits_reaches_its_decisions_and_rewards_are_calculated(self, app, workspace):
        made = recorded(app)
        judge(app, made, "CONFIRMED")
        StatusChangeFactory(item=ItemFactory(workspace=workspace, ref="item-1"))
        assert app.get(f"{T}/outcomes").json() == {"pendingCount": 1}
        assert app.get(f"{T}/track-outcomes").json()["pendingOutcomes"] == 1
        done = app.post(f"{T}/outcomes", {"limit": 100})
        assert done.json() == {"success": True, "processed": 1, "updated": 1, "rewardsCalculated": 1, "errors": 0}
        shown = app.get(f"{T}/decisions").json()[0]
        assert shown["outcomeMetrics"]["completion"] == "DONE"
        assert shown["outcomeObservedAt"]
        assert app.get(f"{T}/outcomes").json() == {"pendingCount": 0}

    def test_track_outcomes_takes_its_limit_from_the_query(self, app, workspace):
        for number in range(3):
            recorded(app, itemId=f"i{number}")
            StatusChangeFactory(item=ItemFactory(workspace=workspace, ref=f"i{number}"))
        done = app.post(f"{T}/track-outcomes?limit=2").json()
        assert (done["processed"], done["updated"]) == (2, 2)
        assert "2 decisions" in done["message"]
        assert app.post(f"{T}/track-outcomes").json()["processed"] == 1

    @pytest.mark.parametrize("limit", [0, -1, "ten", 1.5, True])
    def test_a_limit_that_makes_no_sense_is_refused(self, app, workspace, limit):
        StatusChangeFactory(item=ItemFactory(workspace=workspace, ref="item-1"))
        assert app.post(f"{T}/outcomes", {"limit": limit}).status_code == 400
        assert app.post(f"{T}/track-outcomes?limit={limit}").status_code == 400
        assert StatusChange.objects.get().applied_at is None


class TestExports:
    def test_chats_a_line_each(self, app):
        made = recorded(app)
        judge(app, made, "CORRECTED", correction={"status": "ON_HOLD"})
        app.post(f"{T}/calculate-pending")
        (line,) = lines(app.get(f"{T}/export?agentType=FILER"))
        assert [message["role"] for message in line["messages"]] == ["system", "user", "assistant"]
        assert json.loads(line["messages"][1]["content"]) == FILER["state"]
        assert json.loads(line["messages"][2]["content"]) == {
            "action": FILER["action"],
            "reasoning": FILER["reasoning"],
            "confidence": 0.9,
        }
        assert line["reward"] == pytest.approx(-0.59)
        metadata = line["metadata"]
        assert (metadata["decisionId"], metadata["userFeedback"]) == (made["id"], "CORRECTED")
        assert (metadata["itemId"], metadata["opusId"], metadata["agentType"]) == ("item-1", "opus-1", "FILER")
        assert metadata["userCorrection"]["status"] == "ON_HOLD"
        assert set(metadata) >= {"outcomeMetrics", "createdAt", "rewardComputedAt"}

    def test_completions_need_a_kind_and_hold_rewarded_decisions(self, app):
        refused = app.get(f"{T}/export-file")
        assert refused.status_code == 400
        assert "FILER, LIBRARIAN, PRIORITIZER, STORER, RETRIEVER" in refused.json()["error"]["fields"][0]["expected"]
        judge(app, recorded(app), "CONFIRMED")
        recorded(app)
        app.post(f"{T}/calculate-pending")
        (line,) = lines(app.get(f"{T}/export-file?agentType=FILER"))
        assert line["prompt"].startswith("File this item.")
        assert json.loads(line["completion"])["status"] == "TODO"
        assert len(lines(app.get(f"{T}/export-file?agentType=FILER&requireReward=false"))) == 2

    def test_nothing_is_an_empty_file(self, app):
        assert lines(app.get(f"{T}/export")) == []


class TestStats:
    def test_blocks_of_a_hundred_and_when_there_is_enough(self, app, agents, capsys):
        empty = app.get(f"{T}/stats").json()
        assert shape({**empty, "byAgentType": {}}) == shape({**example.STATS, "byAgentType": {}})
        assert (empty["totalDecisions"], empty["avgReward"], empty["readyForTraining"]) == (0, None, False)
        for number in range(130):
            decision = DecisionFactory(agent=agents["FILER"])
            if number < 50:
                FeedbackFactory(decision=decision, value="confirmed" if number < 40 else "corrected")
        app.post(f"{T}/decisions/record", RETRIEVER)
        assert app.get(f"{T}/stats?agentType=FILER").json()["readyForTraining"] is False
        app.post(f"{T}/calculate-pending")
        stats = app.get(f"{T}/stats").json()
        assert stats["totalDecisions"] == 131
        filer = stats["byAgentType"]["FILER"]
        assert filer == {
            "totalDecisions": 130,
            "decisionsWithReward": 50,
            "decisionsWithFeedback": 50,
            "avgReward": pytest.approx((40 * 0.95 - 10 * 0.55) / 50),
            "progressBlocks": 1,
            "progressInCurrentBlock": 30,
            "progressPercentage": 30.0,
            "readyForTraining": True,
        }
        assert stats["byAgentType"]["RETRIEVER"]["readyForTraining"] is False
        call_command("training_stats", "FILER", "--json")
        told = json.loads(capsys.readouterr().out)
        assert told == {"agentType": "FILER"} | filer | {"avgReward": pytest.approx(filer["avgReward"])}
        with pytest.raises(SystemExit, match="1"):
            call_command("training_stats", "RETRIEVER")
        assert "Not ready" in capsys.readouterr().out


class TestTheInternalKey:
    def call(self, key, path=f"{T}/calculate-pending", method="POST", **headers):
        return Client().generic(method, path, headers={"x-internal-api-key": key, **headers})

    def test_there_is_no_default(self, agents):
        for key in ("", "dev-key", "secret", KEY):
            assert self.call(key).status_code == 401
        assert self.call(KEY).json()["error"]["code"] == "not_authenticated"

    def test_it_opens_the_app_s_endpoints_and_no_other(self, agents, settings, workspace):
        settings.INTERNAL_API_KEY, settings.INTERNAL_WORKSPACE = KEY, workspace.slug
        assert self.call(KEY).json()["success"] is True
        assert self.call(KEY, f"{T}/stats", "GET").status_code == 200
        assert self.call(KEY + "x").status_code == 401
        assert self.call("é").status_code == 401
        for path in ("agents", "decisions", "runs"):
            assert self.call(KEY, f"/api/v1/{path}", "GET").status_code == 401

    def test_it_acts_in_the_workspace_of_the_setting_and_in_no_other(self, agents, settings, workspace):
        settings.INTERNAL_API_KEY = KEY
        other = WorkspaceFactory(slug="rehearsal")
        for header in ({}, {"X-Workspace": workspace.slug}, {"X-Workspace": other.slug}):
            assert self.call(KEY, **header).status_code == 401  # none is named
        settings.INTERNAL_WORKSPACE = workspace.slug
        assert self.call(KEY).status_code == 200
        assert self.call(KEY, **{"X-Workspace": workspace.slug}).status_code == 200
        assert self.call(KEY, **{"X-Workspace": other.slug}).status_code == 401
        settings.INTERNAL_WORKSPACE = "gone"
        assert self.call(KEY).status_code == 401

    def test_it_is_limited_like_any_key(self, agents, settings, workspace):
        settings.INTERNAL_API_KEY, settings.INTERNAL_WORKSPACE = KEY, workspace.slug
        settings.KEY_REQUESTS_A_MINUTE = 1
        answers = [self.call(KEY, f"{T}/stats", "GET").status_code for _ in range(6)]
        assert answers[0] == 200 and 429 in answers
        assert AuditEntry.objects.get(action="api_key.throttled").target == "api_key:internal"

    def test_a_session_works_as_well(self, api, agents, labeller, viewer):
        assert api.person(labeller).post(f"{T}/calculate-pending").status_code == 200
        assert api.person(viewer).get(f"{T}/stats").status_code == 200
        assert api.person(viewer).post(f"{T}/calculate-pending").status_code == 403


def test_the_agent_that_a_kind_means_is_the_one_called_so(api, by, agents):
    register_model(by=by, name="filer-old")
    AgentFactory(workspace=by.workspace, kind="FILER", slug="old-filer", created_at="2020-01-01T00:00:00Z")
    made = recorded(api())
    assert Decision.objects.get(id=made["id"]).agent == Agent.objects.get(slug="filer")


def test_lists_exports_and_counts_show_one_workspace_only(app, agents, other_workspace):
    made = recorded(app)
    theirs = DecisionFactory(agent=AgentFactory(workspace=other_workspace, kind="FILER"))
    FeedbackFactory(decision=theirs)
    StatusChangeFactory(item=ItemFactory(workspace=other_workspace))
    assert [one["id"] for one in app.get(f"{T}/decisions").json()] == [made["id"]]
    assert [line["metadata"]["decisionId"] for line in lines(app.get(f"{T}/export"))] == [made["id"]]
    query = "agentType=FILER&requireReward=false"
    assert [line["metadata"]["decisionId"] for line in lines(app.get(f"{T}/export-file?{query}"))] == [made["id"]]
    stats = app.get(f"{T}/stats").json()
    assert (stats["totalDecisions"], stats["decisionsWithFeedback"]) == (1, 0)
    assert app.post(f"{T}/calculate-pending").json()["processed"] == 0
    assert app.post(f"{T}/outcomes").json()["processed"] == 0
    assert StatusChange.objects.get().applied_at is None


def test_the_pages_of_the_notes_app_have_every_endpoint_with_its_scope():
    docs = Path(__file__).parents[3] / "docs"
    reference = (docs / "api" / "notes-app.md").read_text()
    documented = re.findall(r"^## (\w+) /api(\S+)$.*?^Scope: `([a-z:]+)`\.$", reference, re.MULTILINE | re.DOTALL)
    assert set(documented) == {
        (method, "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)), str(scope))
        for pattern in urls.urlpatterns
        for method, scope in pattern.callback.view_class.scopes.items()
    }
