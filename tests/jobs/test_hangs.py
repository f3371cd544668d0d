"""Handlers that hang: the attempt ends after a time without progress, with a reason, and counts."""

import threading
import time

import pytest

from jobs import hangs
from jobs.context import JobContext
from jobs.models import Job, JobState
from jobs.runner import run_job
from jobs.services import enqueue_job

pytestmark = pytest.mark.django_db
REASON = "it hung: no progress for 0.05 seconds"


@pytest.fixture(autouse=True)
def short_patience(settings):
    settings.JOB_STALL_SECONDS = 0.05


def until(condition):
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def wait_for_ever(context: JobContext):
    """As a supervisor does whose engine says nothing more."""
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        context.check_owned()
        context.cancel_requested()
        time.sleep(0.01)
    pytest.fail("nothing ended the attempt")


def test_a_loop_that_waits_without_progress_is_ended_and_dead_after_its_attempts(kind, hints):
    ended = []
    job = enqueue_job(kind=kind(wait_for_ever, on_end=lambda job: ended.append((job.state, job.error))), max_attempts=2)
    assert [run_job(job.id) for _ in range(3)] == [JobState.QUEUED, JobState.DEAD, None]
    assert ended == [("dead", REASON)]


@pytest.mark.parametrize(
    "sign",
    [
        lambda context: context.progress(0.5),
        lambda context: context.note_progress(0.5, "reading"),
        lambda context: context.fenced().__enter__(),
    ],
    ids=["progress", "note_progress", "fenced"],
)
def test_a_sign_of_life_puts_the_end_off(kind, hints, settings, sign):
    settings.JOB_STALL_SECONDS = 3600.0

    def handler(context):
        context.last_sign -= 60
        sign(context)
        assert time.monotonic() - context.last_sign < 30

    assert run_job(enqueue_job(kind=kind(handler)).id) is JobState.SUCCEEDED


def test_a_kind_may_be_silent_for_as_long_as_its_own_setting_says(kind, hints, settings):
    settings.RUN_STALL_SECONDS = 3600.0

    def handler(context):
        until(lambda: time.monotonic() - context.last_sign > 0.1)
        context.check_owned()

    name = kind(handler, stall_setting="RUN_STALL_SECONDS")
    assert run_job(enqueue_job(kind=name).id) is JobState.SUCCEEDED


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_handler_that_never_looks_up_loses_its_job_with_the_reason(kind, hints, settings):
    """The row is written from outside of the handler, whose later result is thrown away."""
    settings.JOB_LEASE_SECONDS = 0.6
    waiting = threading.Event()

    def handler(context):
        until(lambda: Job.objects.get(id=context.job_id).state != "running")
        waiting.set()
        return {"too": "late"}

    job = enqueue_job(kind=kind(handler), max_attempts=1)
    assert run_job(job.id) is None
    job.refresh_from_db()
    assert waiting.is_set()
    assert (job.state, job.error, job.result, job.attempts) == ("dead", REASON, None, 1)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_handler_that_hangs_in_its_transaction_is_not_waited_for(kind, hints, settings, monkeypatch):
    """It holds the job's row: its transaction is ended, so that the reason can be written, before the process exits."""
    settings.JOB_LEASE_SECONDS = 0.6
    exited = threading.Event()
    monkeypatch.setattr(hangs, "_is_ours", True)
    monkeypatch.setattr(hangs, "_exit", exited.set)
    monkeypatch.setattr(hangs.faulthandler, "dump_traceback_later", lambda *_, **__: None)

    def handler(context):
        with context.fenced():
            Job.objects.filter(id=context.job_id).update(message="half done")
            assert exited.wait(30)
            return {"too": "late"}

    job = enqueue_job(kind=kind(handler), max_attempts=1)
    assert run_job(job.id) is None
    job.refresh_from_db()
    assert exited.is_set()
    assert (job.state, job.error, job.result, job.message, job.attempts) == ("dead", REASON, None, "", 1)
