"""One attempt: claimed by one, fenced, renewed; and every way in which it can end."""

import datetime as dt
import errno
import io
import json
import threading
import time
import uuid

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.utils import timezone

from jobs.context import JobContext, renew_lease
from jobs.errors import AlreadyFinished, Defer, JobCancelled, Permanent, StaleFence
from jobs.models import Job, JobState, Outbox
from jobs.runner import claim_job, run_job
from jobs.services import enqueue_job, request_cancel
from jobs.sweeper import sweep
from tools.factories import JobFactory, OutboxFactory
from workspaces.models import AuditEntry, Workspace

pytestmark = pytest.mark.django_db


def expire(job_id):
    """As if the worker had gone silent for longer than its lease."""
    Job.objects.filter(id=job_id).update(lease_until=timezone.now() - dt.timedelta(seconds=1))


def effect(context):
    AuditEntry.objects.create(
        workspace=Workspace.objects.get(), actor="job", action="effect", target=str(context.fence)
    )


def effects():
    return list(AuditEntry.objects.filter(action="effect").values_list("target", flat=True))


@pytest.mark.django_db(transaction=True)
def test_exactly_one_of_many_claimers_wins(at_once):
    job = JobFactory()
    won = [claimed for claimed in at_once(8, lambda: claim_job(job.id)) if claimed is not None]
    assert len(won) == 1
    job.refresh_from_db()
    assert (job.state, job.attempts, job.fence) == ("running", 1, 1)


def test_a_job_is_claimed_when_due_and_not_before():
    later = JobFactory(run_after=timezone.now() + dt.timedelta(seconds=60))
    assert claim_job(later.id) is None
    assert claim_job(JobFactory(run_after=timezone.now() - dt.timedelta(days=1)).id) is not None
    assert claim_job(JobFactory(state="cancelled", finished_at=timezone.now()).id) is None


def test_a_job_that_ends_well_keeps_its_result(kind, hints):
    def handler(context):
        context.progress(0.5, "half way")
        assert Job.objects.get(id=context.job_id).message == "half way"
        return {"seen": context.payload["x"]}

    job = enqueue_job(kind=kind(handler), payload={"x": 7})
    assert run_job(job.id) is JobState.SUCCEEDED
    job.refresh_from_db()
    assert (job.result, job.progress, job.attempts, job.lease_until) == ({"seen": 7}, 1.0, 1, None)
    assert run_job(job.id) is None  # a second hint finds nothing to do


@pytest.mark.django_db(transaction=True)
def test_effect_and_end_commit_together_or_not_at_all(kind, hints, workspace):
    failures = [RuntimeError("after completing")]

    def handler(context):
        with context.fenced():
            effect(context)
            context.complete({"done": True})
            if failures:
                raise failures.pop()

    job = enqueue_job(kind=kind(handler))
    assert run_job(job.id) is JobState.QUEUED
    assert effects() == []
    assert run_job(job.id) is JobState.SUCCEEDED
    assert effects() == ["2"]


def test_three_failures_and_the_job_is_dead_with_its_reason(kind, hints):
    ended = []

    def handler(context):
        raise ValueError(f"attempt {context.attempt} of poison")

    job = enqueue_job(kind=kind(handler, on_end=lambda job: ended.append((job.id, job.state, job.error))))
    states = [run_job(job.id) for _ in range(4)]
    assert states == [JobState.QUEUED, JobState.QUEUED, JobState.DEAD, None]
    job.refresh_from_db()
    assert job.error == "ValueError: attempt 3 of poison"
    assert ended == [(job.id, "dead", job.error)]
    assert len(hints) == 0  # nothing was committed in this test's transaction


def test_attempts_are_spread_over_minutes(kind, hints, settings):
    settings.JOB_RETRY_SECONDS, settings.JOB_RETRY_FACTOR = 60.0, 10.0

    def handler(context):
        raise ValueError("the database is away")

    job = enqueue_job(kind=kind(handler))
    for wait in (60, 600):
        before = timezone.now()
        assert run_job(job.id) is JobState.QUEUED
        job.refresh_from_db()
        assert before <= job.run_after - dt.timedelta(seconds=wait) <= timezone.now()
        assert run_job(job.id) is None  # not due
        Job.objects.filter(id=job.id).update(run_after=before)
    assert run_job(job.id) is JobState.DEAD


def test_a_job_waits_for_space_for_a_day_and_then_uses_up_its_attempts(kind, hints):
    def handler(context):
        raise OSError(errno.ENOSPC, "No space left on device")

    job = enqueue_job(kind=kind(handler), max_attempts=2)
    long_ago = timezone.now() - dt.timedelta(days=2)

    def attempt(**changes):
        Job.objects.filter(id=job.id).update(run_after=long_ago, **changes)
        return run_job(job.id)

    assert [attempt() for _ in range(4)] == [JobState.QUEUED] * 4
    assert attempt(created_at=long_ago) is JobState.DEAD


def test_a_dead_job_can_be_tried_again_by_a_command(kind, hints):
    failing = [True]

    def handler(context):
        if failing:
            raise ValueError("the disk is full")
        return {}

    def give_up(context):
        raise Permanent("its run failed")

    name, bound = kind(handler), kind(give_up, on_end=lambda job: None)
    job, other = enqueue_job(kind=name, dedupe_key="nightly", max_attempts=1), enqueue_job(kind=bound)
    assert [run_job(one.id) for one in (job, other)] == [JobState.DEAD, JobState.DEAD]

    def retry(*arguments):
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command("retry_jobs", *arguments, stdout=out, stderr=err)
        except SystemExit as left:
            return left.code, err.getvalue()
        return 0, out.getvalue()

    before = list(Job.objects.order_by("id").values())
    assert retry(str(other.id)) == (
        1,
        f"{other.id} ({bound}): the work it was part of has ended; start that again.\n",
    )
    assert retry(str(uuid.uuid4()))[0] == 2
    assert retry("--kind", "tests.unheard_of")[0] == 2
    assert list(Job.objects.order_by("id").values()) == before

    failing.clear()
    assert retry("--kind", name, "--json") == (0, json.dumps({"retried": [str(job.id)], "refused": {}}) + "\n")
    job.refresh_from_db()
    assert (job.state, job.attempts, job.finished_at, job.error) == ("queued", 0, None, "ValueError: the disk is full")
    assert enqueue_job(kind=name, dedupe_key="nightly").id == job.id
    assert run_job(job.id) is JobState.SUCCEEDED
    assert retry(str(job.id))[0] == 1  # it is over


def test_a_job_of_an_unknown_kind_dies_at_once():
    job = JobFactory(kind="tests.unheard_of")
    assert run_job(job.id) is JobState.DEAD
    job.refresh_from_db()
    assert "tests.unheard_of" in job.error


def test_permanent_and_cancelled_end_at_the_first_attempt(kind, hints):
    def refuse(context):
        raise Permanent("the spec is wrong")

    def stop(context):
        raise JobCancelled

    refused, stopped = enqueue_job(kind=kind(refuse)), enqueue_job(kind=kind(stop))
    assert run_job(refused.id) is JobState.DEAD
    assert run_job(stopped.id) is JobState.CANCELLED
    refused.refresh_from_db()
    assert (refused.error, refused.attempts) == ("the spec is wrong", 1)


def test_deferring_costs_no_attempt(kind, hints):
    def handler(context):
        raise Defer(3600, progress=0.25, message="waiting for labels")

    job = enqueue_job(kind=kind(handler))
    for _ in range(5):
        assert run_job(job.id) is JobState.QUEUED
        job.refresh_from_db()
        assert (job.attempts, job.progress, job.message) == (0, 0.25, "waiting for labels")
        assert job.run_after > timezone.now() + dt.timedelta(seconds=3000)
        assert run_job(job.id) is None  # not due
        Job.objects.filter(id=job.id).update(run_after=timezone.now())


def test_an_attempt_that_lost_its_lease_writes_nothing(kind, hints, workspace):
    """The heart of the fence: the sweeper takes the job back, then the old attempt wakes up."""
    tried = []

    def handler(context):
        if context.attempt == 1:
            expire(context.job_id)
            assert sweep().taken_back == 1
            for write in (lambda: context.fenced().__enter__(), lambda: context.progress(0.9), context.complete):
                with pytest.raises(StaleFence):
                    write()
                tried.append(write)
        with context.fenced():
            effect(context)

    job = enqueue_job(kind=kind(handler))
    assert run_job(job.id) is None
    job.refresh_from_db()
    assert (job.state, job.fence, job.attempts, job.error) == ("queued", 2, 1, "its worker was lost")
    assert len(tried) == 3
    assert effects() == []
    assert run_job(job.id) is JobState.SUCCEEDED
    assert effects() == ["3"]


def test_a_result_of_a_stale_attempt_is_thrown_away(kind, hints):
    def handler(context):
        if context.attempt == 1:
            expire(context.job_id)
            sweep()
            assert run_job(context.job_id) is JobState.SUCCEEDED
        return {"attempt": context.attempt}

    job = enqueue_job(kind=kind(handler))
    assert run_job(job.id) is None
    job.refresh_from_db()
    assert (job.state, job.result) == ("succeeded", {"attempt": 2})


def test_a_worker_lost_three_times_ends_the_job(kind, hints):
    ended = []
    job = JobFactory(kind=kind(lambda context: None, on_end=ended.append))
    for _ in range(3):
        assert claim_job(job.id) is not None
        expire(job.id)
        sweep()
    job.refresh_from_db()
    assert (job.state, job.error) == ("dead", "its worker was lost 3 times")
    assert [told.id for told in ended] == [job.id]


def test_one_job_that_cannot_be_ended_does_not_stop_the_sweep(kind, hints):
    def broken(job):
        raise RuntimeError("the upper floor fell over")

    poison = JobFactory(kind=kind(lambda context: None, on_end=broken), max_attempts=1)
    healthy = JobFactory()
    for job in (poison, healthy):
        claim_job(job.id)
        expire(job.id)
    assert sweep().taken_back == 1
    healthy.refresh_from_db()
    poison.refresh_from_db()
    assert (healthy.state, poison.state) == ("queued", "running")


def test_the_lease_is_renewed_by_its_owner_only():
    job = claim_job(JobFactory().id)
    before = job.lease_until
    expire(job.id)
    assert renew_lease(job.id, job.fence)
    job.refresh_from_db()
    assert job.lease_until >= before
    assert not renew_lease(job.id, job.fence + 1)
    assert not renew_lease(job.id, job.fence - 1)


@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_renews_while_the_handler_works_and_notices_a_new_owner(settings):
    settings.JOB_LEASE_SECONDS = 0.6
    context = JobContext(claim_job(JobFactory().id))
    first = Job.objects.get(id=context.job_id).lease_until

    def wait_for(condition):
        give_up = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < give_up
            time.sleep(0.02)

    with context.heartbeat():
        wait_for(lambda: Job.objects.get(id=context.job_id).lease_until > first)
        context.check_owned()
        Job.objects.filter(id=context.job_id).update(fence=context.fence + 1)

        def lost():
            try:
                context.check_owned()
            except StaleFence:
                return True
            return False

        wait_for(lost)
    assert not any(thread.name == f"heartbeat-{context.job_id}" for thread in threading.enumerate())


def test_a_queued_job_is_cancelled_at_once(kind, hints):
    ended = []
    job = enqueue_job(kind=kind(lambda context: None, on_end=lambda job: ended.append(job.state)))
    request_cancel(job_id=job.id)
    job.refresh_from_db()
    assert (job.state, ended) == ("cancelled", ["cancelled"])
    assert run_job(job.id) is None
    with pytest.raises(AlreadyFinished):
        request_cancel(job_id=job.id)


def test_a_running_job_is_told_and_ends_itself(kind, hints):
    def handler(context):
        assert not context.cancel_requested()
        request_cancel(job_id=context.job_id)
        assert context.cancel_requested()
        raise JobCancelled

    job = enqueue_job(kind=kind(handler))
    assert run_job(job.id) is JobState.CANCELLED
    job.refresh_from_db()
    assert job.finished_at is not None


@pytest.mark.parametrize("ending", [RuntimeError("failed meanwhile"), Defer(5)])
def test_a_cancelled_job_that_fails_or_defers_ends_instead_of_waiting_for_ever(kind, hints, ending):
    ended = []

    def handler(context):
        request_cancel(job_id=context.job_id)
        raise ending

    job = enqueue_job(kind=kind(handler, on_end=lambda job: ended.append(job.state)))
    assert run_job(job.id) is JobState.CANCELLED
    job.refresh_from_db()
    assert (job.state, ended) == ("cancelled", ["cancelled"])


def test_a_cancelled_job_whose_worker_is_lost_is_cancelled_by_the_sweeper():
    job = claim_job(JobFactory().id)
    request_cancel(job_id=job.id)
    expire(job.id)
    assert sweep().ended == 1
    job.refresh_from_db()
    assert job.state == "cancelled"


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "resting"},
        {"state": "succeeded"},
        {"finished_at": "2026-01-01T00:00:00Z"},
        {"state": "running"},
        {"lease_until": "2026-01-01T00:00:00Z"},
        {"progress": 1.5},
        {"attempts": 4},
    ],
    ids=str,
)
def test_the_database_refuses_an_impossible_job(wrong):
    job = JobFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(id=job.id).update(**wrong)


def test_deleting_a_job_takes_its_outbox_along():
    OutboxFactory().job.delete()
    assert not Outbox.objects.exists()
