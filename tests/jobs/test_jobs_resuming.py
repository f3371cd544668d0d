"""The only instance on a database starts again: what it left goes on at once."""

import pytest

from jobs.models import Job, JobState, Outbox
from jobs.runner import claim_job
from jobs.services import enqueue_job
from jobs.sweeper import resume_alone


def nothing(context):
    return None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("clean", "attempts"), [(True, 0), (False, 1)])
def test_a_cut_attempt_counts_only_after_a_crash(kind, hints, clean, attempts):
    job = enqueue_job(kind=kind(nothing))
    claimed = claim_job(job.id)
    hints.clear()
    assert resume_alone(clean=clean).taken_back == 1
    job.refresh_from_db()
    assert (job.state, job.attempts) == (JobState.QUEUED, attempts)
    assert job.fence > claimed.fence  # whatever is left of the old attempt writes nothing
    assert hints == [str(job.id)]


@pytest.mark.django_db(transaction=True)
def test_jobs_whose_hint_the_lost_broker_held_are_told_again(kind, hints):
    job = enqueue_job(kind=kind(nothing))
    assert Outbox.objects.get(job=job).sent_at is not None
    hints.clear()
    assert resume_alone(clean=True).hinted == 1
    assert hints == [str(job.id)]


@pytest.mark.django_db(transaction=True)
def test_a_crash_at_the_last_attempt_ends_the_job(kind, hints):
    job = enqueue_job(kind=kind(nothing), max_attempts=1)
    claim_job(job.id)
    resume_alone(clean=False)
    assert Job.objects.get(id=job.id).state == JobState.DEAD
