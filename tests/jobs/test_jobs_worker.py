"""A real Celery worker on the real Valkey: hints arrive, and a flushed broker loses nothing."""

import datetime as dt
import time

import pytest
import redis
from celery.contrib.testing.worker import start_worker
from django.db import connection
from django.utils import timezone

from jobs.models import Job, Outbox
from jobs.services import enqueue_job
from jobs.sweeper import sweep
from project.celery import app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUEUE = "tests-worker"


@pytest.fixture
def broker(settings):
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.delete(QUEUE)
    yield client
    client.delete(QUEUE)
    client.close()


@pytest.fixture
def worker():
    # A solo pool works in the worker's own thread, which has its own database connection: close it at the end.
    with start_worker(app, pool="solo", concurrency=1, perform_ping_check=False, queues=[QUEUE], shutdown_timeout=30):
        yield


def wait_until_over(job):
    give_up = time.monotonic() + 60
    while True:
        job.refresh_from_db()
        if job.is_terminal:
            return job
        assert time.monotonic() < give_up, job.state
        time.sleep(0.05)


def test_a_flushed_broker_loses_no_job_and_runs_none_twice(kind, broker, request):
    ran = []

    def handler(context):
        ran.append(context.job_id)
        connection.close()  # this thread dies with its worker
        return {"by": "worker"}

    name = kind(handler, queue=QUEUE)
    lost = enqueue_job(kind=name)
    assert broker.llen(QUEUE) == 1
    broker.flushdb()
    assert sweep().hinted == 0  # its hint is still young
    Outbox.objects.update(sent_at=timezone.now() - dt.timedelta(hours=1))
    assert sweep().hinted == 1
    Outbox.objects.update(sent_at=timezone.now() - dt.timedelta(hours=1))
    assert sweep().hinted == 1  # and once more: two hints for one job
    assert broker.llen(QUEUE) == 2

    request.getfixturevalue("worker")
    assert wait_until_over(lost).result == {"by": "worker"}
    fresh = enqueue_job(kind=name)
    assert wait_until_over(fresh).state == "succeeded"
    assert ran == [lost.id, fresh.id]
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
