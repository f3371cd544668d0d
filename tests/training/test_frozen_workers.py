"""A worker that freezes for longer than its lease, and its engine with it: the next attempt wins, and what wakes up
writes nothing."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts import opening as artifacts
from models_registry.artifacts.collecting import collect_artifacts
from models_registry.models import Artifact, ModelVersion
from tests.engine_task import TINY, labelled
from tools.export_kills import register_adapted
from tools.freezing import FreezingWorker, Place
from training.datasets.snapshots import import_labelled
from training.exports.services import start_export
from training.models import Evaluation, ExportJob, RunEvent, RunMetric, TrainingRun
from training.runs import launcher
from training.runs.services import RunPlan, start_run
from workspaces.models import AuditEntry

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ROWS = (Job, TrainingRun, RunEvent, RunMetric, ModelVersion, Artifact, Evaluation, ExportJob, AuditEntry)


@pytest.fixture(autouse=True)
def short_leases(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.JOB_LEASE_SECONDS = 3
    # A stand-in that forks would leave the engine itself going.
    monkeypatch.setattr(launcher, "ENGINE", (sys.executable, "-m", "training.engine"))


def see_everything() -> dict[str, Any]:
    """Every row that a worker writes, and what is visible in the store."""
    rows: dict[str, Any] = {model.__name__: list(model.objects.order_by("pk").values()) for model in ROWS}
    return rows | {"store": sorted(digest for digest, _ in artifacts.list_digests())}


def freeze_and_take_over(job_id: Any, place: Place) -> None:
    """Another attempt ends while the first is frozen; what is there then is there after it has woken up."""
    with FreezingWorker(job_id, place) as worker:
        worker.await_frozen()
        worker.await_taken_back()
        assert run_job(job_id) is JobState.SUCCEEDED, Job.objects.get(id=job_id).error
        before = see_everything()
        assert worker.resume(), "it did not see that the job was another's, or left its engine"
        assert see_everything() == before
    job = Job.objects.get(id=job_id)
    assert (job.attempts, job.state) == (2, "succeeded")


@pytest.mark.parametrize("place", [("launcher", "_watch"), ("supervision", "publish")], ids=":".join)
def test_a_trainer_that_was_frozen_writes_nothing(agent: Any, by: Any, store: Path, place: Place) -> None:
    train = import_labelled(by=by, agent=agent, name="train", rows=labelled(96, 1))
    plan = RunPlan("pretrain", train, base_model="tiny", settings=TINY)
    run = start_run(by=by, agent=agent, plan=plan)
    freeze_and_take_over(run.job_id, place)
    run.refresh_from_db()
    assert (run.state, str(run.produced_version), ModelVersion.objects.count()) == ("succeeded", "filer:1", 1)
    assert len(see_everything()["store"]) == 2  # the rows, and one model
    assert artifacts.verify_artifact(run.produced_version.artifact.digest)


@pytest.mark.parametrize(
    "place", [("launcher", "_watch"), ("exports", "_as_plain"), ("exports", "publish_export")], ids=":".join
)
def test_an_exporter_that_was_frozen_writes_nothing(
    base_version: ModelVersion, by: Any, tmp_path: Path, place: Place
) -> None:
    version = register_adapted(by=by, base=base_version, folder=tmp_path / "adapter", rows=labelled(12, 3))
    before = see_everything()["store"]
    export = start_export(by=by, version=version, format="merged")
    freeze_and_take_over(export.job_id, place)
    export.refresh_from_db()
    assert export.state == "ready" and export.artifact is not None
    # What the first had stored before it froze is held by nothing; reports differ in their seconds.
    list(collect_artifacts(timezone.now() + dt.timedelta(days=1)))
    exported = Artifact.objects.filter(removed_at=None, meta__has_key="export_of")
    assert list(exported.values_list("digest", flat=True)) == [export.artifact.digest]
    assert set(see_everything()["store"]) - set(before) == {export.artifact.digest}
    assert artifacts.verify_artifact(export.artifact.digest)
