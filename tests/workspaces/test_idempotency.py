"""The Idempotency-Key header: one effect, the first answer again, and a precise refusal for anything else."""

import datetime as dt
import json
import threading

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from decisions.erasure.erasing import erase_decisions
from decisions.models import Agent, Decision, Feedback
from tests.decisions.conftest import body, verdict
from workspaces.http import idempotency
from workspaces.models import ApiKey, KeptAnswer, Membership, Role
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
KEY = {"Idempotency-Key": "order-66"}


@pytest.fixture
def client(api, agent):
    return api()


class TestRepeats:
    def test_the_same_request_gets_the_first_answer_and_has_one_effect(self, client):
        first = client.post("decisions", body(), **KEY)
        again = client.post("decisions", body(), **KEY)
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == first.json()
        assert (first.headers.get("Idempotent-Replayed"), again.headers["Idempotent-Replayed"]) == (None, "true")
        assert again.headers["Content-Type"] == first.headers["Content-Type"]
        assert Decision.objects.count() == 1

    def test_without_the_header_a_repeat_is_a_new_row(self, client):
        for _ in range(2):
            client.post("decisions", body())
        assert Decision.objects.count() == 2
        assert not KeptAnswer.objects.exists()

    def test_a_partial_batch_is_repeated_as_it_was(self, client):
        sent = [body(), body(propensity=7)]
        first, again = (client.post("decisions", sent, **KEY) for _ in range(2))
        assert (first.status_code, again.status_code) == (207, 207)
        assert again.content == first.content
        assert Decision.objects.count() == 1

    @pytest.mark.parametrize(
        ("path", "sent", "model"),
        [
            ("feedback", verdict(uuid7()), Feedback),
            ("agents", {"slug": "x", "name": "X", "prompt_template": "{{ text }}", "options": ["a", "b"]}, Agent),
        ],
    )
    def test_it_holds_for_whatever_creates(self, client, path, sent, model):
        before = model.objects.count()
        first, again = (client.post(path, sent, **KEY) for _ in range(2))
        assert (first.status_code, again.content) == (201, first.content)
        assert model.objects.count() == before + 1

    def test_other_content_under_the_key_is_refused(self, client):
        client.post("decisions", body(), **KEY)
        for path, sent in (("decisions", body(action="health")), ("decisions?x=1", body()), ("feedback", body())):
            answer = client.post(path, sent, **KEY)
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_key_reused")
        assert Decision.objects.get().action == "travel"

    def test_what_was_refused_may_be_sent_again(self, client, agent):
        sent = {"slug": "filer", "name": "X", "prompt_template": "{{ text }}", "options": ["a", "b"]}
        assert client.post("agents", sent, **KEY).status_code in (400, 409)
        assert not KeptAnswer.objects.exists()
        agent.delete()
        assert client.post("agents", sent, **KEY).status_code == 201

    def test_a_failure_inside_leaves_neither_effect_nor_answer(self, client, monkeypatch):
        with monkeypatch.context() as broken:
            broken.setattr("decisions.api.batches.IngestView.answer", lambda *_: 1 / 0)  # after the row was written
            assert client.post("decisions", body(), **KEY).status_code == 500
        assert not Decision.objects.exists()
        assert client.post("decisions", body(), **KEY).status_code == 201
        assert Decision.objects.count() == 1

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü", "tab\t"])
    def test_a_key_that_is_not_usable_is_named(self, client, key):
        answer = client.post("decisions", body(), **{"Idempotency-Key": key})
        assert answer.status_code == 400
        assert answer.json()["error"]["fields"][0]["field"] == "Idempotency-Key"
        assert not Decision.objects.exists()

    def test_a_body_over_the_limit_is_too_large_with_a_key_as_well(self, client):
        assert client.post("decisions", b"[" + b" " * 11 * 1024 * 1024 + b"]", **KEY).status_code == 413


class TestIdsOfBefore:
    """A fresh key around ids that were recorded already: a batch is then asked again from the start."""

    @pytest.mark.parametrize("size", [3, 8])
    def test_repeats_and_conflicts_are_told_apart(self, client, size):
        sent = [body(id=str(uuid7()), episode=f"e{n}") for n in range(size)]
        assert client.post("decisions", sent[:2]).status_code == 201
        mixed = [sent[0], sent[1] | {"action": "health"}, *sent[2:]]
        first, again = (client.post("decisions", mixed, **KEY) for _ in range(2))
        assert (first.status_code, again.content) == (207, first.content)
        assert [kept["duplicate"] for kept in first.json()["kept"]] == [True] + [False] * (size - 2)
        assert [(error["index"], error["code"]) for error in first.json()["errors"]] == [(1, "id_conflict")]
        names = Decision.objects.order_by("id").values_list("episode__external_id", flat=True)
        assert list(names) == [f"e{n}" for n in range(size)]
        assert set(Decision.objects.values_list("action", flat=True)) == {"travel"}

    @pytest.mark.parametrize("size", [3, 8])
    def test_an_erased_one_costs_the_others_nothing(self, client, agent, size):
        sent = [body(id=str(uuid7())) for _ in range(size)]
        client.post("decisions", sent[0])
        erase_decisions(workspace=agent.workspace, ids=[Decision.objects.get().id], secret=b"s" * 32)
        answer = client.post("decisions", sent, **KEY)
        assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [(0, "erased")]
        assert [kept["index"] for kept in answer.json()["kept"]] == list(range(1, size))
        assert Decision.objects.count() == size

    @pytest.mark.parametrize("size", [3, 8])
    def test_feedback_and_steps_as_well(self, client, size):
        sent = {
            "feedback": [verdict(uuid7(), id=str(uuid7())) for _ in range(size)],
            "steps": [{"id": str(uuid7()), "kind": "span", "agent": "filer", "episode": "e"} for _ in range(size)],
        }
        for path, items in sent.items():
            assert client.post(path, items[0]).status_code == 201
            answer = client.post(path, items, **{"Idempotency-Key": path})
            assert (answer.status_code, len(answer.json()["kept"])) == (201, size), answer.content
            assert [kept["duplicate"] for kept in answer.json()["kept"]] == [True] + [False] * (size - 1)


class TestScope:
    def test_each_sender_has_keys_of_its_own(self, client, api, other_workspace):
        client.post("decisions", body(), **KEY)
        assert api().post("decisions", body(action="health"), **KEY).status_code == 201
        answer = api.of(other_workspace).post("decisions", body(), **KEY)
        assert answer.status_code == 400  # no such agent there: nothing of the first answer is seen
        assert Decision.objects.count() == 2

    def test_a_person_s_session_may_send_one_and_still_needs_the_csrf_token(self, api, agent, admin):
        person = api.person(admin)
        sent = body()
        first, again = (person.post("decisions", sent, **KEY) for _ in range(2))
        assert (first.status_code, again.content) == (201, first.content), first.content
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(admin)
        again = strict.post("/api/v1/decisions", sent, content_type="application/json", headers=KEY)
        assert again.status_code == 403
        assert Decision.objects.count() == 1

    def test_a_person_or_key_that_may_no_longer_ask_gets_no_old_answer(self, api, agent, admin, client):
        person = api.person(admin)
        for one in (person, client):
            assert one.post("decisions", body(), **KEY).status_code == 201
        Membership.objects.filter(user=admin).update(role=Role.VIEWER)
        ApiKey.objects.update(scopes=["export:read"])
        for one in (person, client):
            assert one.post("decisions", body(), **KEY).status_code == 403

    def test_a_revoked_key_gets_no_old_answer(self, client):
        client.post("decisions", body(), **KEY)
        ApiKey.objects.update(revoked_at=timezone.now())
        assert client.post("decisions", body(), **KEY).status_code == 401

    def test_nobody_is_turned_away_as_before(self, api, agent):
        assert api.anonymous().post("decisions", body(), **KEY).status_code == 401
        assert api("export:read").post("decisions", body(), **KEY).status_code == 403
        assert not Decision.objects.exists()

    def test_the_key_is_asked_for_once(self, client, django_assert_max_num_queries):
        client.post("decisions", body())
        with django_assert_max_num_queries(20) as asked:
            client.post("decisions", body(), **KEY)
        assert len([query for query in asked if 'FROM "workspaces_apikey"' in (query["sql"] or "")]) == 1


class TestKeeping:
    def test_an_answer_is_kept_for_the_time_of_the_setting(self, client, settings):
        settings.IDEMPOTENCY_HOURS = 2
        client.post("decisions", body(), **KEY)
        made = KeptAnswer.objects.get()
        KeptAnswer.objects.update(created_at=timezone.now() - dt.timedelta(hours=1.9))
        assert idempotency.drop_old_answers() == 0
        assert client.post("decisions", body(), **KEY).headers["Idempotent-Replayed"] == "true"
        KeptAnswer.objects.update(created_at=timezone.now() - dt.timedelta(hours=2.1))
        assert client.post("decisions", body(), **KEY).status_code == 201  # as if it had never been used
        assert Decision.objects.count() == 2
        assert KeptAnswer.objects.get().id != made.id
        KeptAnswer.objects.update(created_at=timezone.now() - dt.timedelta(hours=2.1))
        assert idempotency.drop_old_answers() == 1
        assert not KeptAnswer.objects.exists()

    def test_a_secret_is_not_kept(self, client):
        sent = {"name": "ci", "scopes": ["export:read"]}
        first, again = (client.post("keys", sent, **KEY) for _ in range(2))
        token = first.json()["token"]
        assert token
        assert again.json() == first.json() | {"token": None}
        assert ApiKey.objects.filter(name="ci").count() == 1
        assert token.partition(".")[2].encode() not in bytes(KeptAnswer.objects.get().body)


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    @pytest.mark.slow
    def test_a_hundred_at_once_have_one_effect(self, client, at_once):
        sent = body()
        answers = at_once(100, lambda: client.post("decisions", sent, **KEY))
        assert {answer.status_code for answer in answers} <= {201, 409}
        kept = {answer.content for answer in answers if answer.status_code == 201}
        assert len(kept) == 1
        refused = {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409}
        assert refused <= {"request_in_flight"}
        assert Decision.objects.count() == 1
        assert client.post("decisions", sent, **KEY).json() == json.loads(kept.pop())

    def test_a_second_one_is_refused_while_the_first_is_answered(self, client, monkeypatch):
        from decisions.api.batches import IngestView

        answer, entered, go_on = IngestView.answer, threading.Event(), threading.Event()

        def slowly(self, outcome, batch):
            entered.set()
            assert go_on.wait(20)
            return answer(self, outcome, batch)

        monkeypatch.setattr(IngestView, "answer", slowly)
        sent, answers = body(), []

        def first():
            try:
                answers.append(client.post("decisions", sent, **KEY))
            finally:
                connection.close()

        thread = threading.Thread(target=first)
        thread.start()
        assert entered.wait(20)
        second = client.post("decisions", sent, **KEY)
        go_on.set()
        thread.join(20)
        assert (second.status_code, second.json()["error"]["code"]) == (409, "request_in_flight")
        assert answers[0].status_code == 201
        assert Decision.objects.count() == 1
