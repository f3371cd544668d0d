"""What goes when it has been kept for long enough, what stays, and who may see how much room it takes."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from decisions.models import RewardDraft
from jobs.models import Job, Outbox
from jobs.runner import run_job
from models_registry.artifacts.opening import local_root, put_folder
from models_registry.models import Call
from project import tasks
from project.upkeep.lifetimes import REMOVE_EXPIRED, remove_expired
from tools.factories import (
    CallFactory,
    ExportJobFactory,
    JobFactory,
    ModelVersionFactory,
    OutboxFactory,
    RewardDraftFactory,
    RunEventFactory,
    TrainingRunFactory,
    uuid7_at,
)
from training.models import RunEvent, TrainingRun

pytestmark = pytest.mark.django_db
NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def removed(now: dt.datetime = NOW) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, count in remove_expired(now=now):
        counts[kind] = counts.get(kind, 0) + count
    return counts


def ended(days: float, state: str = "succeeded", **fields: Any) -> Job:
    return JobFactory(state=state, finished_at=NOW - dt.timedelta(days=days), **fields)


def report(command: str) -> Any:
    out = io.StringIO()
    call_command(command, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_jobs_and_their_hints_go_and_those_that_something_needs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.lifetimes.BATCH", 2)
    old = [ended(15), ended(20, "cancelled"), ended(30), ended(91, "dead")]
    run = TrainingRunFactory(job=ended(400), state="failed", finished_at=NOW - dt.timedelta(days=400))
    kept = [ended(13), ended(89, "dead"), ended(400, kind=tasks.KIND), run.job, JobFactory()]
    hints = [OutboxFactory(job=job) for job in kept]
    assert removed()["ended jobs"] == 3
    assert set(Job.objects.all()) == set(kept)
    assert not Job.objects.filter(id__in=[job.id for job in old]).exists()
    assert set(Outbox.objects.all()) == {hints[-1]}  # of the only job that has not ended
    assert sum(removed().values()) == 0


def test_a_setting_of_nothing_keeps_everything_and_today_s_job_stays_whatever_it_says(settings: Any) -> None:
    settings.KEEP_JOB_DAYS, settings.KEEP_DEAD_JOB_DAYS, settings.KEEP_HINT_DAYS = 0.1, 0, 0
    mine, dead = ended(1, dedupe_key="2026-05-31"), ended(4000, "dead")
    OutboxFactory(job=dead)
    assert removed()["ended jobs"] == 0
    assert set(Job.objects.all()) == {mine, dead}
    assert Outbox.objects.count() == 1


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 5_000)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


ATTEMPT = ("checkpoints/step-5/state.pt", "adapter/weights", "model/weights", "predictions.jsonl", "result.json")


def test_a_run_s_checkpoints_and_copies_go_and_what_its_page_shows_stays(settings: Any, tmp_path: Path) -> None:
    settings.RUNS = tmp_path
    old = TrainingRunFactory(state="failed", finished_at=NOW - dt.timedelta(days=8))
    fresh = TrainingRunFactory(state="failed", finished_at=NOW - dt.timedelta(days=6))
    going = TrainingRunFactory(state="running", finished_at=None)
    gone, export = ExportJobFactory(state="failed", finished_at=NOW - dt.timedelta(days=8)), ExportJobFactory()
    every = {f"attempts/1/{name}" for name in ATTEMPT} | {"spec.json", "engine-1.log", "data/train.jsonl"}
    for run in (str(old.id), str(fresh.id), str(going.id), str(uuid.uuid4()), "a note of mine"):
        fill(tmp_path / run, *every)
    for one in (gone, export):
        fill(tmp_path / f"export-{one.id}", "attempts/1/model/weights")
    assert removed()["run files"] == 4
    stays = {"attempts/1/predictions.jsonl", "attempts/1/result.json", "spec.json", "engine-1.log", "data/train.jsonl"}
    assert files(tmp_path / str(old.id)) == stays
    assert {frozenset(files(tmp_path / str(run.id))) for run in (fresh, going)} == {frozenset(every)}
    assert not (tmp_path / f"export-{gone.id}").exists()
    assert files(tmp_path / f"export-{export.id}")
    assert removed()["run files"] == 0


def test_what_an_engine_said_goes_and_changes_of_state_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.runs.lifetimes.EVENTS", 2)
    run = TrainingRunFactory(state="failed", finished_at=NOW - dt.timedelta(days=91))
    other = TrainingRunFactory(state="failed", finished_at=NOW - dt.timedelta(days=89))
    for attempt, sequence in ((0, 1), (1, 1), (1, 2), (2, 1)):
        RunEventFactory(run=run, attempt=attempt, sequence=sequence)
    newer = RunEventFactory(run=other, attempt=1, sequence=1)
    assert removed()["run events"] == 3
    assert set(RunEvent.objects.values_list("run", "attempt")) == {(run.id, 0), (other.id, newer.attempt)}
    assert TrainingRun.objects.count() == 2


def test_old_drafts_of_reward_specs_go_unless_they_were_published() -> None:
    old, published, fresh = (RewardDraftFactory() for _ in range(3))
    RewardDraft.objects.filter(id=published.id).update(published=published.base)
    RewardDraft.objects.filter(id__in=[old.id, published.id]).update(created_at=NOW - dt.timedelta(days=91))
    RewardDraft.objects.filter(id=fresh.id).update(created_at=NOW - dt.timedelta(days=89))
    assert removed()["drafts"] == 1
    assert set(RewardDraft.objects.all()) == {published, fresh}


def test_calls_that_are_over_go_and_open_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models_registry.calls.records.BATCH", 2)
    long_ago, lately = (NOW - dt.timedelta(days=days) for days in (91, 89))
    for state in ("answered", "failed", "left"):
        version = ModelVersionFactory()
        over = {"assigned": version, "served": version, "state": state, "error": "no server", "closed_at": NOW}
        CallFactory(id=uuid7_at(long_ago), opened_at=long_ago, **over)
    # A client may choose an id that is older than its call.
    kept = [CallFactory(id=uuid7_at(long_ago), opened_at=lately, **over)]
    kept.append(CallFactory(id=uuid7_at(long_ago), opened_at=long_ago))
    assert removed()["calls"] == 3
    assert set(Call.objects.all()) == set(kept)


def test_what_a_killed_writer_left_goes_and_what_is_whole_stays(settings: Any, tmp_path: Path) -> None:
    settings.ARTIFACTS = str(tmp_path / "store")
    fill(tmp_path / "source", "rows.jsonl")
    stored = put_folder(tmp_path / "source", kind="dataset")
    fill(local_root() / "incoming", "left/a", f"removed-{stored.digest}/b")
    now = timezone.now()
    assert removed(now)["incoming"] == 0
    assert removed(now + dt.timedelta(days=1.1))["incoming"] == 2
    assert list((local_root() / "incoming").iterdir()) == []
    assert put_folder(tmp_path / "source", kind="dataset") == stored


def test_the_daily_job_and_the_command_remove_the_same(settings: Any, tmp_path: Path) -> None:
    settings.RUNS = tmp_path
    JobFactory(state="succeeded", finished_at=timezone.now() - dt.timedelta(days=15))
    tasks.queue_removal()
    tasks.queue_removal()
    job = Job.objects.get(kind=REMOVE_EXPIRED)
    assert run_job(job.id) == "succeeded"
    job.refresh_from_db()
    assert job.result is not None
    assert job.result["ended jobs"] == 1
    assert report("remove_expired") == dict.fromkeys(job.result, 0)


def test_the_page_and_the_command_show_the_disk_by_kind(
    settings: Any, tmp_path: Path, admin: Any, labeller: Any, outsider: Any, workspace: Any, page_client: Any
) -> None:
    from django.core.cache import caches

    caches["process"].clear()
    settings.VAR, settings.RUNS, settings.ARTIFACTS = tmp_path, tmp_path / "runs", str(tmp_path / "artifacts")
    run = tmp_path / "runs" / str(uuid.uuid4())
    fill(run, *(f"attempts/1/{name}" for name in ATTEMPT), "spec.json")
    fill(tmp_path, "log/web.log", "artifacts/sha256/ab/x/rows.jsonl", "artifacts/incoming/y/a", "postgres/base/1")
    (run / "data").mkdir()
    # The rows that a run is handed take no room of their own.
    (run / "data" / "train.jsonl").hardlink_to(tmp_path / "artifacts/sha256/ab/x/rows.jsonl")
    usage = report("disk_usage")
    found = {use["kind"]: use["files"] for use in usage["kinds"]}
    assert found == {
        "database": 0, "artifacts": 1, "incoming": 1, "checkpoints": 1, "weights": 2, "exports": 0, "runs": 3,
        "logs": 1, "postgresql": 1, "other": 0,
    }  # fmt: skip
    sizes = {use["kind"]: use["bytes"] for use in usage["kinds"]}
    assert sizes["weights"] == 2 * sizes["logs"] >= 10_000
    assert usage["used_bytes"] == sum(sizes.values()) > usage["database_bytes"] > 1_000_000
    tables = {table["table"]: table["bytes"] for table in usage["tables"]}
    assert tables["decisions_decision"] > 0  # with its partitions
    assert not [name for name in tables if name.startswith("decisions_decision_")]

    address = f"/w/{workspace.slug}/disk"
    assert [page_client(who).get(address).status_code for who in (labeller, outsider)] == [403, 404]
    page = page_client(admin).get(address).content.decode()
    for shown in ("Checkpoints of runs", "decisions_decision", "7 days", "remove_expired", "Free disk space"):
        assert shown in page
