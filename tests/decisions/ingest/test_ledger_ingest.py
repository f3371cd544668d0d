"""Recording decisions and feedback over the API: kept, repeated, in conflict, or refused with the reason."""

import datetime as dt
import gc

import msgspec
import pytest
from django.utils import timezone

from decisions.agents.services import create_agent
from decisions.ingest.schemas import DecisionIn
from decisions.models import Decision, Episode, Feedback
from tests.decisions.conftest import body, verdict
from tools.factories import DecisionFactory, EpisodeFactory, ModelVersionFactory, RegisteredModelFactory, uuid7_at
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
NO_UUID7 = "3be670da-6f73-4e29-a4bd-f7bb5ffe2fd3"
BAD_FIELDS = pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"propensity": 0}, "propensity"),
        ({"propensity": 1.01}, "propensity"),
        ({"confidence": -0.1}, "confidence"),
        ({"epsilon": 2}, "epsilon"),
        ({"temperature": 0}, "temperature"),
        ({"action": "gardening"}, "action"),
        ({"action": 3}, "action"),
        ({"options": ["a", "travel"]}, "options"),
        ({"agent": "nobody"}, "agent"),
        ({"policy_name": None}, "policy_name"),
        ({"model_version": 1}, "policy_name"),
        ({"policy_name": None, "model_version": 9}, "model_version"),
        ({"observed_at": "2026-01-01T00:00:00"}, "observed_at"),
        ({"observed_at": "9999-12-31T23:59:59-14:00"}, "observed_at"),
        ({"observed_at": "2024-03-08T22:19:30+20:53"}, "observed_at"),
        ({"observed_at": "0001-01-01T00:00:00+14:00"}, "observed_at"),
        ({"tokens_in": 2**31}, "tokens_in"),
        ({"cost": 999_999.9999999999}, "cost"),
        ({"unit": ""}, "unit"),
        ({"surprise": 1}, "surprise"),
        ({"alternatives": [{"action": "health"}, {"action": "health", "probability": 2}]}, "alternatives"),
        ({"id": "not-an-id"}, "id"),
        ({"id": NO_UUID7}, "id"),
    ],
    ids=str,
)


@pytest.fixture
def client(api, agent):
    return api("decisions:write", "feedback:write")


def faults(answer):
    return {fault["field"]: fault["reason"] for fault in answer.json()["error"]["fields"]}


class TestOneDecision:
    @pytest.mark.parametrize("above", [1 + 2**-23, 1.000001])
    def test_a_probability_of_32_bits_counts_as_1(self, client, above):
        shares = dict.fromkeys(("propensity", "confidence", "epsilon"), above)
        sent = body(**shares, alternatives=[{"action": "health", "probability": above}, {"action": "finance"}])
        assert client.post("decisions", sent).status_code == 201
        answer = client.post("decisions", [sent, body(propensity=1.00001), sent])
        assert [one["index"] for one in answer.json()["errors"]] == [1]
        assert answer.json()["errors"][0]["fields"][0]["reason"] == "Expected `float` <= 1.0"
        for kept in Decision.objects.all():
            assert (kept.propensity, kept.confidence, kept.epsilon) == (1, 1, 1)
            assert kept.alternatives == [
                {"action": "health", "probability": 1.0},
                {"action": "finance", "probability": None},
            ]
        assert Decision.objects.count() == 3

    def test_every_field_comes_back_as_it_was_sent(self, client, api):
        moment = "2026-01-02T03:04:05.678901+00:00"
        sent = body(
            id=str(uuid7()),
            state={"text": "héllo 😀", "nested": [1, 2.5, None, {"x": True}], "big": 2**63 - 1, "literal": "\\u0000"},
            options=["finance", "travel", "health"],
            propensity=0.7,
            temperature=0.5,
            epsilon=0.1,
            confidence=1.0,
            reasoning="because",
            completion="travel",
            finish_reason="length",
            parameters={"seed": 7, "metadata": {"ticket": "T-1"}},
            alternatives=[{"action": "health", "probability": 0.3}, {"action": "finance"}],
            episode="mailbox 7",
            step_number=3,
            unit="ann",
            external_id="their-id",
            item_ref="note-1",
            project_ref="opus-1",
            user_ref="ann",
            next_state={"text": "a flight", "filed": True},
            latency_ms=12.5,
            tokens_in=10,
            tokens_out=2,
            cost=0.00012345,
            observed_at=moment,
        )
        # Nothing of the schema is left out: a decision is ours or an outside policy's.
        assert {field.name for field in msgspec.structs.fields(DecisionIn)} - set(sent) == {"model_version"}
        answer = client.post("decisions", sent)
        assert answer.status_code == 201, answer.content
        assert answer.json() == {"kept": [{"index": 0, "id": sent["id"], "duplicate": False}], "errors": []}
        shown = api("export:read").get(f"decisions/{sent['id']}").json()
        for name in set(sent) - {"episode", "observed_at", "alternatives", "cost"}:
            assert shown[name] == sent[name], name
        assert [a["action"] for a in shown["alternatives"]] == ["health", "finance"]
        assert float(shown["cost"]) == 0.00012345
        for reason, count in (("length", 1), ("incomplete", 1), ("stop", 0)):
            assert len(api("export:read").get(f"decisions?finish_reason={reason}").json()["results"]) == count
        assert api("export:read").get("decisions?finish_reason=tired").status_code == 400
        row = Decision.objects.get(id=sent["id"])
        assert row.observed_at.isoformat() == moment
        assert row.episode.external_id == "mailbox 7"

    @pytest.mark.parametrize(
        ("given", "stated", "stored"), [(None, 0.7, 0.7), (0.2, 0.7, 0.2), (None, 1, 1.0), (None, None, None)]
    )
    def test_the_confidence_that_an_action_states_is_the_decision_s(self, api, by, given, stated, stored):
        create_agent(by=by, slug="notes-filer", name="Filer", kind="FILER")
        action = {"status": "TODO"} | ({} if stated is None else {"confidence": stated})
        answer = api("decisions:write").post(
            "/api/v1/decisions",
            {
                "agent": "notes-filer", "state": {"item": {"title": "x"}}, "action": action, "policy_name": "app",
                **({} if given is None else {"confidence": given}),
            },
        )  # fmt: skip
        assert answer.status_code == 201
        assert Decision.objects.get().confidence == stored

    def test_without_an_id_the_server_gives_one(self, client):
        answer = client.post("decisions", body())
        row = Decision.objects.get(id=answer.json()["kept"][0]["id"])
        assert row.id.version == 7
        assert row.options == ["finance", "travel", "health"]  # those of the agent's version
        assert row.recorded_at == row.observed_at

    @BAD_FIELDS
    def test_a_bad_field_is_named_and_nothing_is_kept(self, client, fields, field):
        answer = client.post("decisions", body(**fields))
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_input"
        assert any(name.startswith(field) for name in faults(answer)), answer.content
        assert not Decision.objects.exists()

    @BAD_FIELDS
    def test_it_is_named_among_good_ones_that_are_kept(self, client, fields, field):
        answer = client.post("decisions", [body(), body(), body(**fields), body()])
        assert answer.status_code == 207
        assert [kept["index"] for kept in answer.json()["kept"]] == [0, 1, 3]
        (error,) = answer.json()["errors"]
        assert (error["index"], error["code"]) == (2, "invalid_input")
        assert any(fault["field"].startswith(field) for fault in error["fields"])
        assert Decision.objects.count() == 3

    def test_a_missing_field_is_named(self, client):
        answer = client.post("decisions", {"agent": "filer", "state": {}})
        assert faults(answer) == {"action": "is missing"}

    def test_every_fault_of_an_item_is_told_at_once(self, client):
        answer = client.post("decisions", body(id=NO_UUID7, action="gardening", policy_name=None))
        assert set(faults(answer)) == {"id", "action", "policy_name"}

    @pytest.mark.parametrize(
        ("offset", "status"),
        [
            (dt.timedelta(days=-399), 201),
            (dt.timedelta(days=-401), 400),
            (dt.timedelta(minutes=55), 201),
            (dt.timedelta(minutes=65), 400),
        ],
        ids=str,
    )
    def test_ids_lie_between_400_days_back_and_an_hour_ahead(self, client, offset, status):
        answer = client.post("decisions", body(id=str(uuid7_at(timezone.now() + offset))))
        assert answer.status_code == status
        assert Decision.objects.count() == (status == 201)

    @pytest.mark.parametrize("path", ["decisions", "feedback", "steps"])
    def test_an_id_of_a_year_that_no_calendar_has_is_refused(self, api, agent, path):
        far = "ffffffff-ffff-7fff-bfff-ffffffffffff"
        sent = {
            "decisions": body(id=far),
            "feedback": {"id": far, "metric": "clicks", "value": 1, "unit": "ann"},
            "steps": {"id": far, "kind": "tool_call", "agent": "filer", "episode": "e1"},
        }[path]
        answer = api("decisions:write", "feedback:write").post(path, sent)
        assert (answer.status_code, list(faults(answer))) == (400, ["id"]), answer.content

    def test_a_version_of_another_model_did_not_act_here(self, client, agent, workspace):
        own = ModelVersionFactory(registered_model=agent.registered_model)
        ModelVersionFactory(registered_model=RegisteredModelFactory(workspace=workspace), number=5)
        assert client.post("decisions", body(policy_name=None, model_version=own.number)).status_code == 201
        assert Decision.objects.get().model_version == own
        assert client.post("decisions", body(policy_name=None, model_version=5)).status_code == 400


class TestRepeats:
    def test_the_same_decision_twice_is_one(self, client):
        sent = body(id=str(uuid7()), propensity=0.5)
        assert client.post("decisions", sent).json()["kept"][0]["duplicate"] is False
        again = client.post("decisions", dict(reversed(sent.items())))  # the order of keys says nothing
        assert (again.status_code, again.json()["kept"][0]["duplicate"]) == (201, True)
        again = client.post("decisions", sent | {"unit": None, "item_ref": None})  # nor does null for what was left out
        assert (again.status_code, again.json()["kept"][0]["duplicate"]) == (201, True)
        assert Decision.objects.count() == 1

    def test_the_same_id_with_other_content_is_a_conflict(self, client):
        sent = body(id=str(uuid7()))
        client.post("decisions", sent)
        answer = client.post("decisions", sent | {"action": "health"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "id_conflict")
        assert Decision.objects.get().action == "travel"

    def test_inside_one_batch_the_first_wins(self, client):
        sent = body(id=str(uuid7()))
        answer = client.post("decisions", [sent, sent, sent | {"action": "health"}, body()])
        assert answer.status_code == 207
        kept = answer.json()["kept"]
        assert [(k["index"], k["duplicate"]) for k in kept] == [(0, False), (1, True), (3, False)]
        assert [(e["index"], e["code"]) for e in answer.json()["errors"]] == [(2, "id_conflict")]
        assert Decision.objects.count() == 2

    def test_across_batches_old_and_new_are_told_apart(self, client):
        first = [body(id=str(uuid7()), state={"text": str(n)}) for n in range(3)]
        client.post("decisions", first)
        answer = client.post("decisions", [first[0], first[1] | {"unit": "other"}, body(id=str(uuid7()))])
        assert [k["duplicate"] for k in answer.json()["kept"]] == [True, False]
        assert [(e["index"], e["code"]) for e in answer.json()["errors"]] == [(1, "id_conflict")]
        assert Decision.objects.count() == 4

    @pytest.mark.django_db(transaction=True)
    def test_the_same_id_from_many_senders_at_once_is_kept_once(self, client, at_once):
        sent = body(id=str(uuid7()))
        answers = at_once(8, lambda: client.post("decisions", sent))
        assert [a.status_code for a in answers] == [201] * 8
        assert sorted(a.json()["kept"][0]["duplicate"] for a in answers) == [False] + [True] * 7
        assert Decision.objects.count() == 1

    @pytest.mark.django_db(transaction=True)
    def test_of_many_contents_under_one_id_at_once_one_is_kept(self, client, at_once):
        sent, numbers = body(id=str(uuid7())), iter(range(8))
        answers = at_once(8, lambda: client.post("decisions", sent | {"step_number": next(numbers)}))
        assert sorted(a.status_code for a in answers) == [201] + [409] * 7

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_batches_that_overlap_in_opposite_order_do_not_deadlock(self, client, at_once):
        for _ in range(3):
            batch = [body(id=str(uuid7()), state={"text": "x" * 1000}) for _ in range(1000)]
            orders = iter([batch, batch[::-1]] * 2)
            answers = at_once(4, lambda orders=orders: client.post("decisions", next(orders)))
            assert [a.status_code for a in answers] == [201] * 4
        assert Decision.objects.count() == 3000


class TestBatches:
    def test_one_bad_item_does_not_cost_the_others(self, client):
        batch = [body(), body(propensity=7), "text", None, body(action="gardening"), {"agent": "filer"}, body()]
        answer = client.post("decisions", batch)
        assert answer.status_code == 207
        assert [k["index"] for k in answer.json()["kept"]] == [0, 6]
        told = {e["index"]: (e["fields"][0]["field"], e["fields"][0]["reason"]) for e in answer.json()["errors"]}
        assert set(told) == {1, 2, 3, 4, 5}
        assert told[1][0] == "propensity"
        assert told[4] == ("action", "'gardening' is not one of the options")
        assert told[5] == ("state", "is missing")
        assert Decision.objects.count() == 2

    def test_one_object_has_at_most_a_megabyte_and_a_list_ten(self, client):
        large = body(state={"text": "x" * 1_100_000})
        assert client.post("decisions", large).status_code == 413
        assert not Decision.objects.exists()
        assert client.post("decisions", [large] * 3).status_code == 201
        assert Decision.objects.count() == 3

    def test_text_of_every_kind_comes_back_from_a_batch_as_from_one(self, client, api):
        hard = "tab\t newline\n return\r back\\slash \\N \\. \x01\x7f \x85 \u2028 é 😀 '\"{}"
        sent = [
            body(id=str(uuid7()), state={"text": hard, hard: [hard]}, reasoning=hard, unit=hard, completion="\\N")
            for _ in range(7)
        ]
        assert client.post("decisions", sent[:6]).status_code == 201  # COPY
        assert client.post("decisions", sent[6]).status_code == 201  # one statement
        for item in sent:
            row = Decision.objects.get(id=item["id"])
            shown = (row.state, row.reasoning, row.unit, row.completion)
            assert shown == (item["state"], hard, hard, "\\N")
            assert (row.external_id, row.cost) == (None, None)

    def test_what_some_items_say_and_others_do_not_comes_back_from_a_batch(self, client):
        said = {
            "episode": "e1", "step_number": 0, "unit": "ann", "item_ref": "note-1", "next_state": {"n": None},
            "reasoning": "", "confidence": 0.25, "temperature": 1.5, "alternatives": [{"action": "health"}],
            "latency_ms": 1e-7, "tokens_in": 0, "cost": 0.00012345, "observed_at": "2026-01-02T03:04:05.678901+05:30",
        }  # fmt: skip
        sent = [body(id=str(uuid7()), **(said if n % 3 else {})) for n in range(8)]
        assert client.post("decisions", sent).status_code == 201
        names = [name for name in said if name not in {"episode", "alternatives", "observed_at", "cost"}]
        for n, item in enumerate(sent):
            row = Decision.objects.get(id=item["id"])
            assert [getattr(row, name) for name in names] == [said[name] if n % 3 else None for name in names]
            assert (row.episode is not None, row.alternatives is not None) == (n % 3 > 0, n % 3 > 0)
            assert (float(row.cost) if row.cost is not None else None) == (said["cost"] if n % 3 else None)
            assert (row.observed_at.isoformat() == "2026-01-01T21:34:05.678901+00:00") == (n % 3 > 0)

    def test_a_repeat_in_a_batch_costs_the_others_nothing_of_what_they_name(self, client):
        known = body(id=str(uuid7()))
        client.post("decisions", known)
        sent = [body(id=str(uuid7()), episode=f"new {n}") for n in range(5)]
        answer = client.post("decisions", [*sent[:2], known, *sent[2:]])
        assert [k["duplicate"] for k in answer.json()["kept"]] == [False, False, True, False, False, False]
        rows = Decision.objects.filter(episode__isnull=False).select_related("episode").order_by("id")
        assert [row.episode.external_id for row in rows] == [f"new {n}" for n in range(5)]

    @pytest.mark.slow
    def test_a_batch_leaves_nothing_to_the_collector_of_cycles(self, client):
        def garbage(size):
            batch = [body(id=str(uuid7())) for _ in range(size)]
            gc.collect()
            assert client.post("decisions", batch).status_code == 201
            return gc.collect()

        few = garbage(10)
        assert garbage(1000) < few + 500

    @pytest.mark.parametrize("count", [0, 1001])
    def test_a_batch_has_1_to_1000_items(self, client, count):
        assert client.post("decisions", [body()] * count).status_code == 400
        assert not Decision.objects.exists()

    def test_a_thousand_go_in_at_once(self, client):
        answer = client.post("decisions", [body(step_number=n) for n in range(1000)])
        assert answer.status_code == 201
        assert [k["index"] for k in answer.json()["kept"]] == list(range(1000))
        assert Decision.objects.count() == 1000

    def test_an_episode_is_made_once_and_found_again(self, client, agent):
        client.post("decisions", [body(episode="e1"), body(episode="e1"), body(episode="e2"), body()])
        client.post("decisions", body(episode="e1"))
        assert set(Episode.objects.values_list("external_id", flat=True)) == {"e1", "e2"}
        assert Decision.objects.filter(episode__external_id="e1").count() == 3


class TestFeedback:
    def test_feedback_is_kept_with_its_target(self, client, agent):
        decision, episode = DecisionFactory(agent=agent), EpisodeFactory(agent=agent)
        batch = [
            verdict(decision.id),
            {"metric": "clicks", "value": 3, "episode_id": str(episode.id), "source": "system"},
            {"metric": "happy", "value": True, "unit": "ann"},
            {"metric": "share", "value": 0.25, "unit": "ann"},
            {"metric": "words", "value": "thanks", "unit": "ann"},
        ]
        assert client.post("feedback", batch).status_code == 201
        assert sorted(Feedback.objects.values_list("metric", "value")) == sorted(
            (item["metric"], item["value"]) for item in batch
        )

    def test_feedback_may_come_before_its_decision(self, client):
        early = str(uuid7())
        assert client.post("feedback", verdict(early)).status_code == 201
        assert client.post("decisions", body(id=early)).status_code == 201
        assert Decision.objects.get().feedback.get().value == "confirmed"

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"value": "liked"}, "value"),
            ({"value": 1}, "value"),
            ({"value": {"a": 1}}, "value"),
            ({"unit": "ann"}, "decision_id"),
            ({"decision_id": None}, "decision_id"),
            ({"decision_id": NO_UUID7}, "decision_id"),
            ({"source": "oracle"}, "source"),
            ({"supersedes": "0195e1d8-1111-7111-8111-111111111111"}, "supersedes"),
            ({"metric": ""}, "metric"),
        ],
        ids=str,
    )
    def test_a_bad_field_is_named_and_nothing_is_kept(self, client, agent, fields, field):
        answer = client.post("feedback", verdict(DecisionFactory(agent=agent).id) | fields)
        assert answer.status_code == 400
        assert field in faults(answer)
        assert not Feedback.objects.exists()

    def test_repeats_and_conflicts_by_id(self, client, agent):
        sent = verdict(DecisionFactory(agent=agent).id, id=str(uuid7()))
        assert client.post("feedback", sent).json()["kept"][0]["duplicate"] is False
        assert client.post("feedback", sent).json()["kept"][0]["duplicate"] is True
        assert client.post("feedback", sent | {"value": "corrected"}).status_code == 409
        assert Feedback.objects.get().value == "confirmed"

    @pytest.mark.parametrize("target", ["decision", "unit"])
    def test_repeats_and_conflicts_by_idempotency_key(self, client, agent, target):
        sent = verdict(DecisionFactory(agent=agent).id, idempotency_key="click-1")
        if target == "unit":
            sent = {"metric": "verdict", "value": "confirmed", "unit": "ann", "idempotency_key": "click-1"}
        first = client.post("feedback", sent).json()["kept"][0]
        again = client.post("feedback", [sent, sent]).json()["kept"]
        assert [(k["id"], k["duplicate"]) for k in again] == [(first["id"], True)] * 2
        assert client.post("feedback", sent | {"value": "corrected"}).status_code == 409
        assert Feedback.objects.get().value == "confirmed"

    @pytest.mark.parametrize("target", ["decision_id", "episode_id", "unit"])
    def test_one_key_on_two_targets_is_two(self, client, agent, target):
        make = {"decision_id": DecisionFactory, "episode_id": EpisodeFactory}.get(target)
        targets = [str(make(agent=agent).id) for _ in range(3)] if make else ["ann", "bob", "cat"]
        first, *rest = [{"metric": "mood", "value": "well", "idempotency_key": "1", target: one} for one in targets]
        assert client.post("feedback", first).json()["kept"][0]["duplicate"] is False
        kept = client.post("feedback", [first, *rest, *rest]).json()["kept"]
        assert [one["duplicate"] for one in kept] == [True, False, False, True, True]
        assert Feedback.objects.count() == 3

    @pytest.mark.django_db(transaction=True)
    def test_one_key_from_many_senders_at_once_has_one_effect(self, client, agent, at_once):
        """Alone and in batches that go by COPY, on each kind of target; another content is a conflict for all."""
        for count in (1, 1, 2, 6):
            targets = [
                {"decision_id": str(DecisionFactory(agent=agent).id)},
                {"episode_id": str(EpisodeFactory(agent=agent).id)},
                {"unit": str(uuid7())},
            ]
            words = {"metric": "mood", "value": "well"}
            sent = [words | targets[n % 3] | {"idempotency_key": f"click-{n}"} for n in range(count)]
            before = Feedback.objects.count()
            answers = at_once(8, lambda sent=sent: client.post("feedback", sent))
            assert {answer.status_code for answer in answers} == {201}
            told = [[(one["id"], one["duplicate"]) for one in answer.json()["kept"]] for answer in answers]
            assert len({tuple(row for row, _ in kept) for kept in told}) == 1
            assert sum(not duplicate for kept in told for _, duplicate in kept) == count
            assert Feedback.objects.count() == before + count
            other = client.post("feedback", [one | {"value": "ill"} for one in sent])
            assert [error["code"] for error in other.json()["errors"]] == ["id_conflict"] * count
            assert Feedback.objects.count() == before + count

    @pytest.mark.django_db(transaction=True)
    def test_the_same_units_in_opposite_orders_at_once_are_all_kept(self, client, agent, at_once):
        """Each holds a key that the other waits for, unless both take them in one order."""
        words = {"metric": "mood", "value": "well", "idempotency_key": "click"}
        for round_of in range(3):
            sent = [words | {"unit": f"unit-{round_of}-{n}"} for n in range(500)]
            orders = [sent, sent[::-1]]
            answers = at_once(2, lambda orders=orders: client.post("feedback", orders.pop()))
            assert [answer.status_code for answer in answers] == [201, 201]
            assert Feedback.objects.count() == 500 * (round_of + 1)

    def test_feedback_for_another_workspace_is_refused(self, client, other_workspace, api):
        foreign = DecisionFactory(agent__workspace=other_workspace)
        episode = EpisodeFactory(agent=foreign.agent)
        theirs = api.of(other_workspace, "feedback:write").post("feedback", verdict(foreign.id)).json()["kept"][0]
        mine = {"metric": "x", "value": 1}
        for item in (
            verdict(foreign.id),
            mine | {"episode_id": str(episode.id)},
            mine | {"unit": "ann", "supersedes": theirs["id"]},
        ):
            assert client.post("feedback", item).status_code == 400
        assert Feedback.objects.count() == 1


class TestReading:
    def test_decisions_are_listed_newest_first_and_page_by_page(self, client, api):
        ids = [k["id"] for k in client.post("decisions", [body(step_number=n) for n in range(7)]).json()["kept"]]
        reader, seen, url = api("export:read"), [], "decisions?limit=3"
        while url:
            page = reader.get(url).json()
            seen += [row["id"] for row in page["results"]]
            url = page["next"] and page["next"].replace("http://testserver", "")
        assert seen == ids[::-1]

    @pytest.mark.parametrize("query", ["cursor=cD1hYmM=", "cursor=cD0lMDA=", "cursor=%F0", "cursor=cj14"])
    def test_a_cursor_that_was_not_made_here_is_not_found(self, client, api, query):
        client.post("decisions", body())
        assert api("export:read").get(f"decisions?{query}").status_code == 404

    @pytest.mark.parametrize("query", ["agent=%00", "unit=a%00b"])
    def test_a_nul_in_the_query_is_refused(self, api, query):
        assert api("export:read").get(f"decisions?{query}").status_code == 400

    def test_lists_filter_by_agent_and_unit(self, client, api):
        client.post("decisions", [body(unit="ann"), body(unit="bob"), body()])
        reader = api("export:read")
        assert len(reader.get("decisions?unit=ann").json()["results"]) == 1
        assert len(reader.get("decisions?agent=filer").json()["results"]) == 3
        [fault] = reader.get("decisions?agent=nobody").json()["error"]["fields"]
        assert (fault["field"], fault["reason"]) == ("agent", "'nobody' does not exist in this workspace")

    def test_the_number_of_queries_does_not_grow_with_the_list(self, client, api, django_assert_max_num_queries):
        client.post("decisions", [body(episode=f"e{n}") for n in range(20)])
        reader = api("export:read")
        with django_assert_max_num_queries(7):  # three of them have the list read by its index
            assert len(reader.get("decisions").json()["results"]) == 20


def test_the_number_of_queries_does_not_grow_with_the_batch(client, django_assert_max_num_queries):
    with django_assert_max_num_queries(14):
        client.post("decisions", [body(episode=f"e{n}", unit=f"u{n}") for n in range(50)])
