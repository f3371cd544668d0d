"""Clocks that jump: a machine's that differs from the database's by days, is set back, or lives where summer ends."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from decisions import tasks
from jobs.errors import Defer
from jobs.models import Job, JobState, Outbox
from jobs.runner import run_job
from jobs.services import enqueue_daily, enqueue_job
from jobs.sweeper import sweep
from tests.clocks import MovedClock, moved_clock  # noqa: F401 - a fixture
from workspaces.storage import clock
from workspaces.storage.clock import TOLERANCE, database_now

pytestmark = pytest.mark.django_db
DAYS = (dt.timedelta(hours=48), dt.timedelta(hours=-48))


def nothing(context):
    return {}


@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_the_clock_is_the_databases_whatever_this_machine_says(moved_clock: MovedClock, ahead):  # noqa: F811
    true = timezone.now()
    moved_clock.ahead = ahead
    assert abs(database_now() - true) < dt.timedelta(seconds=30)
    moved_clock.ahead = ahead - dt.timedelta(hours=1)  # set back while it runs
    assert abs(database_now() - true) < dt.timedelta(seconds=30)


def test_clocks_in_step_are_not_corrected_and_cost_no_counted_query(moved_clock: MovedClock):  # noqa: F811
    moved_clock.ahead = TOLERANCE / 2
    with CaptureQueriesContext(connection) as queries:
        before = timezone.now()
        assert before <= database_now() <= timezone.now()
    assert len(queries) == 0


def test_a_process_that_was_frozen_while_it_asked_corrects_nothing(moved_clock, monkeypatch):  # noqa: F811
    real, read = timezone.now, []

    def frozen_after_two():
        read.append(1)
        return real() - dt.timedelta(hours=1) if len(read) <= 2 else real()

    monkeypatch.setattr(timezone, "now", frozen_after_two)
    monkeypatch.setattr(clock, "_measured", None)
    assert abs(database_now() - real()) < dt.timedelta(seconds=30)


@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_a_job_is_due_at_once_on_a_machine_whose_clock_is_days_off(moved_clock, kind, hints, ahead):  # noqa: F811
    moved_clock.ahead = ahead
    job = enqueue_job(kind=kind(nothing))
    assert run_job(job.id) is JobState.SUCCEEDED
    job.refresh_from_db()
    assert job.started_at <= job.finished_at + dt.timedelta(seconds=1)


@pytest.mark.parametrize("ahead", DAYS, ids=str)
def test_a_deferred_job_waits_as_long_as_it_asked(moved_clock, kind, hints, ahead):  # noqa: F811
    def later(context):
        raise Defer(3600)

    true = timezone.now()
    moved_clock.ahead = ahead
    job = enqueue_job(kind=kind(later))
    assert run_job(job.id) is JobState.QUEUED
    job.refresh_from_db()
    assert abs(job.run_after - true - dt.timedelta(hours=1)) < dt.timedelta(seconds=30)


def test_a_lost_hint_is_sent_again_after_a_sweep_although_it_left_in_the_future(
    moved_clock,  # noqa: F811
    kind,
    hints,
    django_capture_on_commit_callbacks,
):
    moved_clock.set_ahead(hours=48)
    with django_capture_on_commit_callbacks(execute=True):
        job = enqueue_job(kind=kind(nothing))
    assert hints == [str(job.id)]
    sent_at = Outbox.objects.get(job=job).sent_at
    moved_clock.set_ahead(hours=0)
    assert sent_at <= timezone.now() + TOLERANCE
    Outbox.objects.update(sent_at=sent_at - dt.timedelta(minutes=5))
    assert sweep().hinted == 1


def test_the_nightly_jobs_are_of_the_databases_day(moved_clock, hints):  # noqa: F811
    """Beat on three machines, two of them days off, and one whose clock is set back an hour: one job of each kind."""
    for hours in (0, 48, -48, 0, -1, 0):
        moved_clock.set_ahead(hours=hours)
        for queue in (tasks.queue_nightly_rewards, tasks.queue_judges, tasks.queue_partitions):
            queue()
    kinds = [tasks.CALCULATE_REWARDS, tasks.CALIBRATE_JUDGES, tasks.MAKE_PARTITIONS]
    assert sorted(Job.objects.values_list("kind", flat=True)) == sorted(kinds)


@pytest.mark.parametrize(
    "begin", [dt.datetime(2026, 3, 28, 12, tzinfo=dt.UTC), dt.datetime(2026, 10, 24, 12, tzinfo=dt.UTC)], ids=str
)
def test_the_night_in_which_summer_time_changes_has_one_job(kind, hints, begin):
    """Asked for every hour, as beat does, with a zone that leaves out an hour of the night or has it twice."""
    name = kind(nothing)
    with timezone.override(ZoneInfo("Europe/Zurich")):
        for hour in range(48):
            moment = (begin + dt.timedelta(hours=hour)).astimezone(ZoneInfo("Europe/Zurich"))
            enqueue_daily(kind=name, hour=2, now=moment)
    days = [(begin + dt.timedelta(days=day)).date().isoformat() for day in range(3)]
    assert list(Job.objects.order_by("dedupe_key").values_list("dedupe_key", flat=True)) == days
