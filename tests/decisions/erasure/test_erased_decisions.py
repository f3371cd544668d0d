"""Tombstones in the ledger: what stays, what goes, and that what was erased is never stored again."""

from __future__ import annotations

import secrets

import pytest
from django.db import DatabaseError, connection, transaction

from decisions.erasure.counts import count_person
from decisions.erasure.erasing import Person, count_decisions, erase_decisions, erase_without_decisions, find_decisions
from decisions.models import Decision, Episode, Feedback, Item, Label, Project, QueueItem, Reward, StatusChange, Step
from decisions.models.tombstones import ERASED_HASH, ERASED_STATE
from decisions.queries.browse import Filters
from decisions.queries.queue import find_labelling_queue
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.models import Exposure, Observation
from tests.decisions.conftest import body, verdict
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    EpisodeFactory,
    ExposureFactory,
    FeedbackFactory,
    ItemFactory,
    LabelFactory,
    LabelQueueFactory,
    ObservationFactory,
    ProjectFactory,
    QueueItemFactory,
    ReservationFactory,
    ShadowAnswerFactory,
    SkipFactory,
    StatusChangeFactory,
    StepFactory,
    uuid7,
)

pytestmark = pytest.mark.django_db
ANN = Person("unit", "ann")


def erase(workspace, person=ANN, secret=b"s" * 32):
    """As the job does, in one batch."""
    counts = erase_decisions(
        workspace=workspace,
        ids=find_decisions(workspace=workspace, person=person, after=None, size=1000),
        secret=secret,
    )
    return counts + erase_without_decisions(workspace=workspace, person=person, secret=secret)


def as_sent(row):
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.fixture
def ann(agent, judged):
    """Two decisions about ann with all that may hang on one, rewards calculated; the first is in an experiment."""
    episode = EpisodeFactory(agent=agent, unit="ann", query="Where is Ann's file?", final_response="In Ann's folder.")
    exposure = ExposureFactory(workspace=agent.workspace, unit="ann")
    ObservationFactory(exposure=exposure)
    decision = judged(
        "confirmed",
        unit="ann",
        user_ref="u-1",
        item_ref="item-ann",
        project_ref="opus-ann",
        external_id="ann-17",
        state={"text": "Ann's note"},
        reasoning="Ann said so",
        completion="Ann, travel",
        parameters={"metadata": {"customer": "Ann"}},
        alternatives=[{"action": "Ann", "probability": 0.5}],
        episode=episode,
        exposure=exposure,
    )
    FeedbackFactory(decision=decision, metric="minutes", value=3.5)
    FeedbackFactory(decision=decision, metric="remark", value="Ann liked it", idempotency_key="ann-click")
    FeedbackFactory(decision=decision, metric="verdict", value="overridden", correction="Ann's way", source="code")
    FeedbackFactory(decision=None, workspace=agent.workspace, unit="ann", metric="mood", value="Ann is well")
    SkipFactory(decision=decision, note="Is that Ann?")
    asked = QueueItemFactory(
        queue=LabelQueueFactory(workspace=agent.workspace), decision=decision, gold={"corrected_action": "Ann"}
    )
    ReservationFactory(item=asked, holder="key:a", draft={"note": "Ann?"})
    words = {"note": "Ann again", "corrected_action": "Ann's", "correction_sent": {"by": "Ann"}}
    LabelFactory(decision=decision, verdict="corrected", **words)
    whole = LabelQueueFactory(workspace=agent.workspace, subject="episode")
    asked = QueueItemFactory(queue=whole, decision=None, episode=episode)
    LabelFactory(decision=None, episode=episode, workspace=agent.workspace, note="Ann's day")
    ReservationFactory(item=asked, holder="key:a", draft={"note": "Ann?"})
    StepFactory(decision=decision, episode=episode, arguments={"q": "Ann"}, error="no Ann", success=False)
    StepFactory(episode=episode, result={"found": "Ann"}, content="Ann?", parent="ann", external_id="ann-2")
    project = ProjectFactory(workspace=agent.workspace, ref="opus-ann", name="Ann's opus")
    item = ItemFactory(workspace=agent.workspace, ref="item-ann", title="Ann's item", labels=["Ann"])
    item.project_ref = project.ref
    item.save()
    StatusChangeFactory(item=item, decision=decision, external_id="ann-change", correction={"swimlane": "Ann"})
    ShadowAnswerFactory(shadow__agent=agent, decision=decision, pick="Ann's other")
    second = judged("corrected", unit="ann", state={"text": "Ann's second"})
    calculate_rewards(current_reward_spec(agent))
    return [decision, second]


def texts_of(word):
    """Every text and jsonb column of every table that holds the word, as table.column."""
    found = []
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT c.table_name, c.column_name FROM information_schema.columns c
                 JOIN information_schema.tables t USING (table_schema, table_name)
                WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
                  AND c.data_type IN ('text', 'character varying', 'jsonb', 'json', 'ARRAY')
                  -- A salted hash holds any three letters now and then.
                  AND (c.table_name, c.column_name) <> ('workspaces_user', 'password')"""
        )
        for table, column in cursor.fetchall():
            cursor.execute(f'SELECT 1 FROM "{table}" WHERE "{column}"::text ILIKE %s LIMIT 1', [f"%{word}%"])
            if cursor.fetchone():
                found.append(f"{table}.{column}")
    return found


class TestTombstones:
    def test_no_word_stays_and_no_number_changes(self, workspace, agent, ann):
        assert len(texts_of("ann")) > 20  # the test finds them where they are
        numbers = ("id", "propensity", "confidence", "policy_name", "observed_at", "recorded_at", "latency_ms")
        before = {row.id: [getattr(row, name) for name in numbers] for row in Decision.objects.all()}
        rewards = list(Reward.objects.order_by("decision_id").values_list("decision_id", "version", "value", "raw"))
        verdicts = list(Feedback.objects.filter(metric="verdict").order_by("id").values_list("id", "value"))
        erase(workspace)
        assert texts_of("ann") == []
        assert {row.id: [getattr(row, name) for name in numbers] for row in Decision.objects.all()} == before
        again = list(Reward.objects.order_by("decision_id").values_list("decision_id", "version", "value", "raw"))
        assert again == rewards
        assert list(Feedback.objects.filter(metric="verdict").order_by("id").values_list("id", "value")) == verdicts
        assert Feedback.objects.get(metric="minutes").value == 3.5
        assert Feedback.objects.get(metric="remark").value == "erased"
        assert Label.objects.get(episode=None).verdict == "corrected"
        assert set(QueueItem.objects.values_list("state", flat=True)) == {"dropped"}

    def test_counts_are_of_what_was_changed_and_a_second_time_finds_nothing(self, workspace, ann):
        promised = count_person(workspace=workspace, person=ANN)
        counts = erase(workspace)
        assert dict(counts) == {
            "decisions": 2,
            "feedback": 8,
            "labels": 2,
            "steps": 2,
            "episodes": 1,
            "items": 1,
            "projects": 1,
            "status_changes": 1,
            "exposures": 1,
            "observations": 1,
        }
        promised.pop("rewards")  # every reward is found, and none of these said anything
        assert {name: number for name, number in promised.items() if number} == dict(counts)
        assert count_decisions(workspace=workspace, person=ANN) == 0
        everything = [as_sent(row) for model in (Decision, Feedback, Step, Episode) for row in model.objects.all()]
        assert not erase(workspace, secret=b"t" * 32)
        after = [as_sent(row) for model in (Decision, Feedback, Step, Episode) for row in model.objects.all()]
        assert after == everything

    def test_one_unit_stays_one_unit_under_a_name_that_nobody_knows(self, workspace, ann):
        erase(workspace)
        units = {row.unit for row in Decision.objects.all()} | {
            Exposure.objects.get().unit,
            Observation.objects.get().unit,
        }
        assert len(units) == 1
        assert units.pop().startswith("erased:")
        first = Decision.objects.get(id=ann[0].id)
        assert first.item_ref == Item.objects.get().ref
        assert Item.objects.get().project_ref == Project.objects.get().ref
        assert (first.state, first.action, bytes(first.content_hash)) == (ERASED_STATE, "erased", ERASED_HASH)

    def test_everyone_else_stays_as_they_are(self, workspace, other_workspace, agent, ann):
        exposure = Exposure.objects.get()
        shared = EpisodeFactory(agent=agent, unit="team", query="theirs")
        Decision.objects.filter(id=ann[1].id).update(item_ref="shared", project_ref="shared-opus")
        kept = [
            DecisionFactory(agent=agent, unit="bob", item_ref="shared", project_ref="shared-opus", episode=shared),
            DecisionFactory(agent=AgentFactory(workspace=other_workspace), unit="ann"),
            ItemFactory(workspace=workspace, ref="shared", title="ours"),
            ProjectFactory(workspace=workspace, ref="shared-opus", name="ours"),
            shared,
            ExposureFactory(workspace=workspace, experiment=exposure.experiment, phase=exposure.phase, unit="annette"),
            FeedbackFactory(decision=None, workspace=other_workspace, unit="ann", value="theirs", metric="mood"),
        ]
        for row in kept:
            row.refresh_from_db()
        before = [as_sent(row) for row in kept]
        erase(workspace)
        for row in kept:
            row.refresh_from_db()
        assert [as_sent(row) for row in kept] == before

    def test_by_the_app_s_own_reference(self, workspace, agent, ann):
        other = DecisionFactory(agent=agent, unit="ann", user_ref="u-2", exposure=Exposure.objects.get())
        erase(workspace, Person("user", "u-1"))
        assert bytes(Decision.objects.get(id=ann[0].id).content_hash) == ERASED_HASH
        # The second decision and the other user's are of the unit, but not of u-1.
        assert count_decisions(workspace=workspace, person=ANN) == 2
        assert Exposure.objects.get().unit == "ann"
        Decision.objects.filter(id=other.id).update(user_ref="u-1")
        Decision.objects.filter(id=ann[1].id).update(user_ref="u-1")
        erase(workspace, Person("user", "u-1"))
        assert Exposure.objects.get().unit.startswith("erased:")
        assert texts_of("ann") == []

    def test_a_shared_item_stays_without_what_was_said_by_the_person_s_decision(self, workspace, agent, ann):
        """Nobody can say whose words a title is, and the others need it; a correction is of one decision."""
        other = DecisionFactory(agent=agent, unit="bob", item_ref="item-ann", project_ref="opus-ann")
        theirs = StatusChangeFactory(item=Item.objects.get(), decision=other, correction={"swimlane": "HOME"})
        before = as_sent(Item.objects.get()), as_sent(Project.objects.get()), as_sent(theirs)
        promised = count_person(workspace=workspace, person=ANN)
        assert {name: promised[name] for name in ("items", "projects", "status_changes")} == {
            "items": 0, "projects": 0, "status_changes": 1,
        }  # fmt: skip
        assert (promised["items_shared"], promised["projects_shared"]) == (1, 1)
        counts = erase(workspace)
        theirs.refresh_from_db()
        assert (as_sent(Item.objects.get()), as_sent(Project.objects.get()), as_sent(theirs)) == before
        assert (counts["items"], counts["projects"], counts["status_changes"]) == (0, 0, 1)
        own = StatusChange.objects.exclude(id=theirs.id).get()
        assert (own.external_id, own.correction, bytes(own.content_hash)) == (None, None, ERASED_HASH)
        # With the last decision about them they go.
        assert count_person(workspace=workspace, person=Person("unit", "bob"))["projects"] == 1
        erase(workspace, Person("unit", "bob"), secret=b"b" * 32)
        assert (Item.objects.get().title, Project.objects.get().name) == ("erased", "erased")
        assert texts_of("ann") == []

    def test_what_names_nobody_in_the_person_s_own_episode_is_theirs(self, workspace, agent):
        """As traces tell of the calls of models; where the episode is nobody's, they are left alone."""
        hers, nobody_s = EpisodeFactory(agent=agent, unit="ann"), EpisodeFactory(agent=agent, unit="")
        [call, *_] = made = [
            DecisionFactory(agent=agent, unit=None, episode=hers, state={"text": "Ann asks"}),
            DecisionFactory(agent=agent, unit=None, episode=hers, state={"text": "Ann asks again"}),
            DecisionFactory(agent=agent, unit="ann", episode=nobody_s),
        ]
        StepFactory(decision=call, episode=hers, result="Ann's answer")
        kept = [
            DecisionFactory(agent=agent, unit="bob", episode=hers, state={"text": "bob's"}),
            DecisionFactory(agent=agent, unit=None, user_ref="u-2", episode=hers, state={"text": "u-2's"}),
            DecisionFactory(agent=agent, unit=None, episode=nobody_s, state={"text": "somebody's"}),
        ]
        assert count_person(workspace=workspace, person=ANN)["decisions"] == 3
        assert count_person(workspace=workspace, person=Person("user", "ann"))["decisions"] == 0
        after, found, secret = None, [], b"s" * 32
        while ids := find_decisions(workspace=workspace, person=ANN, after=after, size=1, secret=secret):
            erase_decisions(workspace=workspace, ids=ids, secret=secret)  # the first of them renames the episode
            found, after = [*found, *ids], ids[-1]
        assert found == [row.id for row in made]
        assert texts_of("ann") == []
        assert [Decision.objects.get(id=row.id).state for row in kept] == [row.state for row in kept]

    def test_an_episode_that_went_with_another_person_is_not_counted_again(self, workspace, agent):
        shared = EpisodeFactory(agent=agent, unit="ann", query="Where is Ann's file?")
        for unit in ("ann", "bob"):
            DecisionFactory(agent=agent, unit=unit, episode=shared)
        bob = Person("unit", "bob")
        assert [count_person(workspace=workspace, person=one)["episodes"] for one in (ANN, bob)] == [1, 1]
        assert erase(workspace)["episodes"] == 1
        assert count_person(workspace=workspace, person=bob)["episodes"] == 0
        assert erase(workspace, bob)["episodes"] == 0

    def test_a_project_that_only_the_item_names(self, workspace, agent):
        ItemFactory(workspace=workspace, ref="item-ann", title="Ann's", project_ref="opus-ann")
        ProjectFactory(workspace=workspace, ref="opus-ann", name="Ann's opus")
        DecisionFactory(agent=agent, unit="ann", item_ref="item-ann")
        promised = count_person(workspace=workspace, person=ANN)
        assert (promised["items"], promised["projects"]) == (1, 1)
        erase(workspace)
        assert texts_of("ann") == []

    @pytest.mark.parametrize(("unit", "gone"), [("item", True), ("user", False)])
    def test_a_unit_that_is_an_item_takes_its_row_along(self, workspace, agent, unit, gone):
        """Where an agent's units are users, an item of the same name is something else."""
        type(agent).objects.filter(id=agent.id).update(unit=unit)
        DecisionFactory(agent=agent, unit="42")
        item = ItemFactory(workspace=workspace, ref="42", title="buy milk")
        person = Person("unit", "42")
        assert count_person(workspace=workspace, person=person)["items"] == gone
        assert erase(workspace, person)["items"] == gone
        item.refresh_from_db()
        assert (item.title == "erased") is gone

    def test_what_was_being_written_meanwhile_goes_at_the_end(self, workspace, agent, ann):
        ids = find_decisions(workspace=workspace, person=ANN, after=None, size=1000)
        erase_decisions(workspace=workspace, ids=ids, secret=b"s" * 32)
        # Their writers had looked before, and commit behind the batch.
        FeedbackFactory(decision=ann[0], metric="remark", value="Ann was here")
        StepFactory(decision=ann[1], episode=None, workspace=workspace, content="Ann?")
        LabelFactory(decision=ann[1], note="Ann")
        kept = FeedbackFactory(decision=DecisionFactory(agent=agent, unit="bob"), metric="remark", value="bob's")
        counts = erase_without_decisions(workspace=workspace, person=ANN, secret=b"s" * 32)
        assert (counts["steps"], counts["labels"]) == (1, 1)
        assert texts_of("ann") == []
        kept.refresh_from_db()
        assert kept.value == "bob's"

    def test_errors_of_components_are_not_quoted(self, workspace, ann):
        components = {"verdict": {"error": "unknown verdict Ann"}, "calibration": {"value": -0.25}}
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('reckoner.erasing', 'on', true)")
            Reward.objects.filter(decision=ann[0]).update(components=components)
            cursor.execute("SELECT set_config('reckoner.erasing', 'off', true)")
        erase(workspace)
        assert Reward.objects.get(decision=ann[0]).components == {
            "verdict": {"error": "erased"},
            "calibration": {"value": -0.25},
        }

    def test_feedback_and_rewards_are_append_only_again_behind_it(self, workspace, ann):
        erase(workspace)
        for model in (Feedback, Reward):
            with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
                model.objects.filter(decision=ann[0]).update(workspace=workspace)

    def test_a_unit_that_comes_back_meets_the_experiment_anew_and_may_be_erased_again(self, workspace, agent, ann):
        first = Exposure.objects.get()
        erase(workspace)
        again = ExposureFactory(workspace=workspace, experiment=first.experiment, phase=first.phase, unit="ann")
        DecisionFactory(agent=agent, unit="ann", exposure=again)
        erase(workspace)  # even with the same key, as a job that was cut off would
        assert len({exposure.unit for exposure in Exposure.objects.all()}) == 2
        assert texts_of("ann") == []


class TestNeverAgain:
    def test_a_repeat_is_told_and_not_stored(self, api, workspace, agent):
        client = api("decisions:write", "feedback:write")
        sent = body(id=str(uuid7()), unit="ann", state={"text": "Ann's note"}, episode="Ann's day")
        assert client.post("decisions", sent).status_code == 201
        remark = {"metric": "remark", "value": "Ann liked it", "id": str(uuid7()), "decision_id": sent["id"]}
        keyed = {"metric": "remark", "value": "Ann, too", "idempotency_key": "k", "decision_id": sent["id"]}
        assert client.post("feedback", [remark, keyed]).status_code == 201
        erase(workspace)
        assert texts_of("ann") == []
        for path, what in (("decisions", sent), ("feedback", remark), ("feedback", keyed)):
            answer = client.post(path, what)
            assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased"), path
        assert client.post("decisions", sent | {"action": "health"}).status_code == 410
        assert client.post("feedback", verdict(sent["id"])).status_code == 410
        assert texts_of("ann") == []

    def test_of_a_batch_the_others_are_kept(self, api, workspace, agent):
        client = api("decisions:write", "feedback:write")
        gone, good = body(id=str(uuid7()), unit="ann", episode="Ann's day"), body(id=str(uuid7()), unit="bob")
        client.post("decisions", gone)
        erase(workspace)
        answer = client.post("decisions", [gone, good, body(action="nonsense"), body()])
        assert answer.status_code == 207
        assert [kept["index"] for kept in answer.json()["kept"]] == [1, 3]
        assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [
            (0, "erased"),
            (2, "invalid_input"),
        ]
        answer = client.post("feedback", [verdict(gone["id"]), verdict(good["id"])])
        assert [error["code"] for error in answer.json()["errors"]] == ["erased"]
        assert texts_of("ann") == []

    def test_another_workspace_does_not_learn_of_it(self, api, other_workspace, workspace, agent):
        sent = body(id=str(uuid7()), unit="ann")
        api("decisions:write").post("decisions", sent)
        erase(workspace)
        AgentFactory(workspace=other_workspace, slug="theirs")
        answer = api.of(other_workspace).post("feedback", verdict(sent["id"]))
        assert answer.status_code == 400
        assert "erased" not in str(answer.json())

    def test_nobody_can_label_it_or_is_asked_to(self, api, page_client, labeller, workspace, agent, ann):
        unjudged = DecisionFactory(agent=agent, unit="ann")
        kept = DecisionFactory(agent=agent, unit="bob")
        erase(workspace)
        answer = api("feedback:write").post(f"decisions/{ann[1].id}/labels", {"verdict": "confirmed", "note": "Ann"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert texts_of("ann") == []
        assert find_labelling_queue(workspace, Filters(), size=10).ids == (kept.id,)
        assert page_client(labeller).get(f"/w/acme/decisions/{unjudged.id}").status_code == 200

    def test_an_agent_does_not_answer_again_what_was_erased(self, api, workspace, agent):
        decision = DecisionFactory(agent=agent, unit="ann", content_hash=secrets.token_bytes(32))
        erase(workspace)
        answer = api("route:read").post("agents/filer/decide", {"id": str(decision.id), "state": {"text": "Ann"}})
        assert answer.status_code == 410
        assert texts_of("ann") == []


class TestEpisodesNeverAgain:
    """An erased episode is recognised by id, name and trace; it takes decisions, and nothing that is told of itself."""

    TRACE = "trace:" + "5b" * 16

    @pytest.fixture(params=["Ann's day", TRACE], ids=["by name", "by trace"])
    def told(self, request, api, workspace, agent):
        """What was sent of an episode with a decision of ann's and one of bob's; then ann was erased."""
        client = api("decisions:write", "feedback:write")
        where = {"agent": "filer", "episode": request.param}
        sent = [
            ("decisions", body(id=str(uuid7()), unit="ann", episode=request.param)),
            ("decisions", body(id=str(uuid7()), unit="bob", episode=request.param)),
            (
                "episodes",
                where | {"query": "Where is Ann?", "final_response": "Ann left", "session": "Ann", "unit": "ann"},
            ),
            ("steps", where | {"kind": "reasoning", "id": str(uuid7()), "content": "Ann?"}),
        ]
        for path, what in sent:
            assert client.post(path, what).status_code == 201, (path, what)
        sent.append(
            ("feedback", {"metric": "remark", "value": "Ann!", "episode_id": str(Episode.objects.get().id),
                          "idempotency_key": "ann-click"})
        )  # fmt: skip
        assert client.post(*sent[-1]).status_code == 201
        erase(workspace)
        assert texts_of("ann") == []
        return dict(sent[2:]) | {"of ann": sent[0][1], "of bob": sent[1][1], "where": where}

    def everything(self):
        return [list(model.objects.order_by("pk").values()) for model in (Episode, Step, Decision, Feedback)]

    @pytest.mark.parametrize(
        ("path", "fresh"),
        [("episodes", {}), ("episodes", {"query": "Ann, again"}), ("steps", {}), ("steps", {"id": None}),
         ("feedback", {}), ("feedback", {"idempotency_key": None})],
    )  # fmt: skip
    @pytest.mark.quick_cases(4)
    def test_a_repeat_is_told_and_nothing_changes(self, api, told, path, fresh):
        sent = {name: value for name, value in (told[path] | fresh).items() if value is not None}
        before = self.everything()
        answer = api("decisions:write", "feedback:write").post(path, sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert self.everything() == before

    def test_other_people_s_repeats_do_not_store_its_name_again(self, api, told):
        before = self.everything()
        answer = api("decisions:write").post("decisions", told["of bob"])
        assert (answer.status_code, answer.json()["kept"][0]["duplicate"]) == (201, True)
        assert self.everything() == before

    def test_a_new_decision_and_its_steps_belong_to_it_still(self, api, told):
        client = api("decisions:write")
        made = client.post("decisions", told["of bob"] | {"id": str(uuid7())}).json()["kept"][0]["id"]
        step = told["where"] | {"kind": "tool_call", "decision_id": made, "name": "search"}
        assert client.post("steps", step).status_code == 201
        only = Episode.objects.get()
        assert Decision.objects.get(id=made).episode == only
        assert (only.is_erased, only.query, only.session.startswith("erased:")) == (True, "erased", True)

    def test_of_a_batch_the_others_are_kept(self, api, told):
        client = api("decisions:write")
        other = {"agent": "filer", "episode": "Bob's day"}
        answer = client.post("episodes", [told["episodes"], other | {"query": "Where is Bob?"}])
        assert ([kept["index"] for kept in answer.json()["kept"]], answer.status_code) == ([1], 207)
        answer = client.post("steps", [other | {"kind": "span"}, told["where"] | {"kind": "span"}])
        assert [kept["index"] for kept in answer.json()["kept"]] == [0]
        assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [(1, "erased")]

    def test_another_workspace_s_names_are_its_own(self, api, told, other_workspace):
        AgentVersionFactory(agent=AgentFactory(workspace=other_workspace, slug="filer"))
        assert api.of(other_workspace).post("episodes", told["episodes"]).status_code == 201

    def test_a_step_of_an_erased_decision_is_not_taken(self, api, told):
        before = self.everything()
        step = {"kind": "reasoning", "content": "Ann", "decision_id": told["of ann"]["id"]}
        answer = api("decisions:write").post("steps", step)
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert self.everything() == before


class TestUnitsNeverAgain:
    def test_feedback_on_a_unit_is_recognised_by_its_key(self, api, workspace, agent):
        client = api("feedback:write")
        keyed = {"metric": "mood", "value": "Ann is well", "unit": "ann", "idempotency_key": "ann-1"}
        named = {"metric": "mood", "value": "Ann is ill", "unit": "ann", "id": str(uuid7())}
        assert client.post("feedback", [keyed, named]).status_code == 201
        erase(workspace)
        before = list(Feedback.objects.order_by("id").values())
        for sent in (keyed, named, keyed | {"value": "other words of Ann"}):
            answer = client.post("feedback", sent)
            assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")
        assert list(Feedback.objects.order_by("id").values()) == before
        assert texts_of("ann") == []
        # With a key of its own it is new; and an erasure of that finds it.
        assert client.post("feedback", keyed | {"idempotency_key": "ann-2"}).status_code == 201
        erase(workspace)
        assert texts_of("ann") == []
        # Another unit's key is another key, whatever it is called.
        assert client.post("feedback", keyed | {"unit": "bob", "value": "Bob is well"}).status_code == 201
