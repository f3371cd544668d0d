"""Calls of a key with a budget lock the day's row last: no two of them wait for each other."""

import threading
import time
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from models_registry.calls.records import Ending, Opening, close_calls, open_calls
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Call, FailedRequest, KeySpend
from workspaces.access.actors import program
from workspaces.access.services import KeyLimits
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.slow
SECONDS = 20.0
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def remote_version(remote):
    return remote("gpt")


@pytest.fixture
def client(api, remote_version):
    return api("route:read", limits=KeyLimits(spend_a_day=Decimal(1)))


def wait_for(count):
    until = time.monotonic() + SECONDS
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(WAITING)
            if cursor.fetchone()[0] >= count:
                return
            time.sleep(0.02)
    raise AssertionError(f"fewer than {count} statements wait")


@pytest.mark.django_db(transaction=True)
def test_a_question_that_is_sent_again_while_its_call_ends_waits_for_it(client, remote_version):
    by, version, call, failures = program(client.key), remote_version[0], uuid7(), []
    opening = Opening(call, version, Decimal("0.1"))
    open_calls(by=by, kind="decide", openings=[opening], now=timezone.now())

    def run(work):
        try:
            work()
        except DatabaseError as error:
            failures.append(error)
        finally:
            connection.close()

    def again():
        open_calls(by=by, kind="decide", openings=[opening], now=timezone.now())

    def end():
        ending = Ending(call, "answered", served=version.id, cost=Decimal("0.01"))
        close_calls(by=by, endings=[ending], now=timezone.now())

    threads = [threading.Thread(target=run, args=[work]) for work in (again, end)]
    with transaction.atomic():
        KeySpend.objects.select_for_update().get()
        for count, thread in enumerate(threads, 1):
            thread.start()
            wait_for(count)
    for thread in threads:
        thread.join(SECONDS)
    assert (failures, Call.objects.get().state) == ([], "answered")
    assert KeySpend.objects.get().reserved == 0


@pytest.mark.django_db
def test_a_request_without_an_answer_meets_its_experiment_before_it_settles(by, remote, client, remote_version):
    challenger, spare = remote("llama")
    start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
    spare.stop()
    remote_version[1].stop()
    with CaptureQueriesContext(connection) as queries:
        assert client.post("agents/filer/decide", {"state": {"text": "flight"}, "unit": "u"}).status_code == 503
    said = [one["sql"] for one in queries]
    [exposed] = [number for number, sql in enumerate(said) if sql.startswith('INSERT INTO "models_registry_exposure"')]
    [settled] = [number for number, sql in enumerate(said) if "settled AS" in sql]
    assert FailedRequest.objects.count() == 1
    assert exposed < settled
