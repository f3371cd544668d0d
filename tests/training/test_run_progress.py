"""The progress of a run: of the whole run, and never less than it was, also where an attempt begins at a checkpoint."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.context import JobContext
from jobs.models import Job
from jobs.runner import claim_job
from jobs.sweeper import sweep
from tools.factories import JobFactory, TrainingRunFactory
from training.engine.attempt.events import MEASURING, PREPARING, TRAINING, Events
from training.models import TrainingRun
from training.supervision.job import store_events

pytestmark = pytest.mark.django_db


def write_events(path: Path, *steps: tuple[int, int, str, Any]) -> list[dict[str, Any]]:
    events = Events(path)
    for step in steps:
        events.progress(*step)
    events.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_progress_of_an_attempt_is_of_all_that_it_does(tmp_path: Path) -> None:
    steps = (0, 4, "fit", PREPARING), (3, 4, "fit", PREPARING), (0, 10, "learn", TRAINING), (10, 10, "learn", TRAINING)
    events = write_events(tmp_path / "events.jsonl", *steps, (0, 2, "measure", MEASURING), (1, 2, "measure", MEASURING))
    shares = [event["share"] for event in events]
    assert shares == sorted(shares) == [0.0, 0.075, 0.1, 0.9, 0.9, 0.95]
    assert [event["fraction"] for event in events] == [0.0, 0.75, 0.0, 1.0, 0.0, 0.5]  # of its part: the pace


def test_progress_of_a_resumed_run_does_not_go_back(tmp_path: Path) -> None:
    """Killed at step 8 of 10 with a checkpoint at 5: the next attempt prepares, and goes on from 5."""
    run = TrainingRunFactory(job=JobFactory())
    first = JobContext(claim_job(run.job_id))
    seen = []

    def store(context: JobContext, name: str, *steps: tuple[int, int, str, Any]) -> None:
        for event in write_events(tmp_path / name, *steps):
            store_events(run, context, [event])
            progress = TrainingRun.objects.get(id=run.id).progress
            assert Job.objects.get(id=run.job_id).progress == progress
            seen.append(progress)

    store(first, "first", (0, 1, "fit", PREPARING), *((step, 10, "learn", TRAINING) for step in (0, 5, 8)))
    Job.objects.filter(id=run.job_id).update(lease_until=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert sweep().taken_back == 1
    second = JobContext(claim_job(run.job_id))
    second.progress(0.0, "storing the base")
    store(second, "second", (0, 1, "fit", PREPARING), *((step, 10, "learn", TRAINING) for step in (5, 9, 10)))
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(0.9)
    assert TrainingRun.objects.get(id=run.id).message == "learn"
