"""From enqueue to hint: nothing is lost when the broker is, and nothing runs twice."""

import datetime as dt

import pytest
from celery import Celery
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from jobs import hints as hints_module
from jobs.models import Job, JobState, Outbox
from jobs.runner import run_job
from jobs.services import enqueue_daily, enqueue_job
from jobs.sweeper import sweep
from jobs.tasks import run
from project.celery import app
from tools.factories import JobFactory, OutboxFactory


def nothing(context):
    return None


@pytest.mark.django_db(transaction=True)
class TestCommitted:
    def test_the_hint_leaves_on_commit_and_is_written_down(self, kind, hints):
        name = kind(nothing)
        with transaction.atomic():
            job = enqueue_job(kind=name)
            assert hints == []
        assert hints == [str(job.id)]
        outbox = Outbox.objects.get(job=job)
        assert (outbox.sends, outbox.sent_at is not None) == (1, True)

    def test_a_rolled_back_change_leaves_neither_job_nor_hint(self, kind, hints):
        with pytest.raises(RuntimeError), transaction.atomic():
            enqueue_job(kind=kind(nothing))
            raise RuntimeError
        assert hints == []
        assert not Job.objects.exists()

    def test_two_enqueues_of_one_key_at_once_make_one_job(self, kind, hints, at_once):
        name = kind(nothing)
        made = at_once(8, lambda: enqueue_job(kind=name, dedupe_key="2026-11-20").id)
        assert len(set(made)) == 1
        assert Job.objects.count() == 1
        assert hints == [str(made[0])]
        assert enqueue_job(kind=kind(nothing), dedupe_key="2026-11-20").id != made[0]  # another kind is another job

    def test_a_key_stays_used_after_its_job_has_ended(self, kind, hints):
        name = kind(nothing)
        job = enqueue_job(kind=name, dedupe_key="once")
        assert run_job(job.id) is JobState.SUCCEEDED
        assert enqueue_job(kind=name, dedupe_key="once").id == job.id
        assert run_job(job.id) is None

    def test_a_dead_job_is_replaced_by_the_next_that_asks(self, kind, hints, at_once):
        failing = [True]

        def handler(context):
            if failing:
                raise ValueError("the disk is full")

        name = kind(handler)
        dead = enqueue_job(kind=name, dedupe_key="nightly", max_attempts=1)
        assert run_job(dead.id) is JobState.DEAD
        again = set(at_once(4, lambda: enqueue_job(kind=name, dedupe_key="nightly").id))
        assert len(again) == 1
        assert again != {dead.id}
        failing.clear()
        assert run_job(again.pop()) is JobState.SUCCEEDED
        assert sorted(Job.objects.values_list("state", flat=True)) == ["dead", "succeeded"]

    def test_a_daily_job_is_asked_for_once_from_its_hour_on(self, kind, hints):
        name = kind(nothing)
        day = dt.datetime(2026, 3, 4, tzinfo=dt.UTC)
        asked = [
            enqueue_daily(kind=name, hour=2, now=day + dt.timedelta(hours=hours)).id for hours in (1, 2, 3, 25, 26)
        ]
        before, first, later, still, next_day = asked
        assert first == later == still
        assert len({before, first, next_day}) == 3

    def test_a_dead_broker_loses_no_job(self, kind, monkeypatch):
        sent = []
        alive = False

        def send(name, args, **options):
            if not alive:
                raise OperationalError("connection refused")
            sent.append(args[0])

        monkeypatch.setattr(app, "send_task", send)
        jobs = [enqueue_job(kind=kind(nothing)) for _ in range(3)]
        assert set(Outbox.objects.values_list("sent_at", "sends")) == {(None, 0)}
        assert sweep().hinted == 0
        alive = True
        assert sweep().hinted == 3
        assert sent == [str(job.id) for job in jobs]
        assert sweep().hinted == 0  # they were just sent

    @pytest.mark.slow
    def test_a_broker_that_nobody_listens_at_is_a_dead_broker(self, kind, monkeypatch, settings):
        """The same against a closed port: the real client's error is the one that is understood."""
        dead = Celery("dead", broker="redis://127.0.0.1:1/0", set_as_current=False)
        dead.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
        monkeypatch.setattr(hints_module, "current_app", dead)
        job = enqueue_job(kind=kind(nothing))
        assert Outbox.objects.get(job=job).sent_at is None
        assert run_job(job.id) is JobState.SUCCEEDED


@pytest.mark.django_db
class TestSweep:
    def sent(self, seconds_ago, **job):
        made = JobFactory(**job)
        OutboxFactory(job=made, sent_at=timezone.now() - dt.timedelta(seconds=seconds_ago), sends=1)
        return str(made.id)

    def test_only_due_jobs_whose_hint_is_old_are_sent_again(self, hints, settings):
        settings.JOB_SWEEP_SECONDS = 30.0
        past = timezone.now() - dt.timedelta(hours=1)
        lost = self.sent(60, run_after=past)
        self.sent(5, run_after=past)  # its hint may still be on the way
        self.sent(60, run_after=timezone.now() + dt.timedelta(hours=1))  # not due
        self.sent(60, run_after=past, state="succeeded", finished_at=past)
        sweep()
        assert hints == [lost]
        sweep()
        assert hints == [lost]

    def test_a_deferred_job_is_hinted_again_once_due(self, hints):
        due = self.sent(5, run_after=timezone.now() - dt.timedelta(seconds=1))
        sweep()
        assert hints == [due]

    def test_a_hint_delivered_twice_runs_once(self, kind, hints):
        ran = []
        job = enqueue_job(kind=kind(lambda context: ran.append(context.attempt)))
        run(str(job.id))
        run(str(job.id))
        assert ran == [1]

    def test_an_unknown_kind_cannot_be_enqueued(self):
        with pytest.raises(KeyError):
            enqueue_job(kind="tests.never_registered")
        assert not Job.objects.exists()
