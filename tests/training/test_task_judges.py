"""Judges of runs on tasks: refused unless calibrated, handed to the engine with their server, not once they drift."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from decisions.models import JudgeCalibration
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job, JobState
from jobs.runner import claim_job, run_job
from jobs.sweeper import sweep
from models_registry.models import Backend, ModelVersion
from tests.judge_model import KEY, PROMPT
from tools.factories import BackendFactory, JudgeCalibrationFactory, ModelVersionFactory
from training.engine.spec.run_spec import RunSpec
from training.environments.drawing import TaskQuestion, draw_datasets
from training.errors import EngineFailed, InvalidRun
from training.models import Evaluation, TrainingRun
from training.runs.launcher import engine_environment, key_of_judge
from training.runs.services import EnginePaths, RunPlan, engine_spec, start_run
from training.supervision.job import judge_of, supervise_run

JUDGE: dict[str, Any] = {"metric": "helpful", "backend": "judges", "model": "judge-1", "prompt": PROMPT, "share": 0.5}
ONLINE = {"steps": 1, "prompts_per_step": 2, "group": 4, "alarms": None}


@pytest.fixture
def drawn(agent: Any, by: Any, store: Any) -> Any:
    question = TaskQuestion("writing", tasks=4, first=0, held_out=3, demonstrations=0)
    return draw_datasets(by=by, agent=agent, name="writing", question=question)


def plan(drawn: Any, base: Any, **judge: Any) -> RunPlan:
    settings = {"online": ONLINE, "max_prompt_tokens": 160, "threads": 1, "judge": {**JUDGE, **judge}}
    return RunPlan("grpo", drawn.tasks, base_version=base, heldout=drawn.held_out, settings=settings)


def test_a_judge_that_is_not_calibrated_starts_no_run_and_one_that_drifted_no_engine(
    drawn: Any, agent: Any, by: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ModelVersionFactory(registered_model=agent.registered_model)
    BackendFactory(workspace=agent.workspace, name="judges")
    BackendFactory(workspace=agent.workspace, name="elsewhere", url="http://elsewhere/v1")
    settings.BACKEND_URLS = ["http://127.0.0.1:9"]
    JudgeCalibrationFactory(agent=agent)
    for judge, field, reason in (
        ({}, "metric", "helpful is refused: 4 scored decisions have a label, 100 are needed."),
        ({"metric": "polite"}, "metric", "polite was never calibrated against people."),
        ({"backend": "none"}, "backend", "There is no enabled server 'none'."),
        ({"backend": "elsewhere"}, "backend", "the address http://elsewhere is not allowed here"),
        ({"url": "http://127.0.0.1:9/v1"}, "url", "is filled in by the run"),
    ):
        with pytest.raises(InvalidRun) as refused:
            start_run(by=by, agent=agent, plan=plan(drawn, base, **judge))
        told = {fault.field: fault.reason for fault in refused.value.faults}
        assert reason in told[f"settings.judge.{field}"]
    assert not TrainingRun.objects.exists() and not Job.objects.exists()

    calibrated = JudgeCalibrationFactory(agent=agent, verdict="calibrated", assessment={})
    equations = draw_datasets(by=by, agent=agent, name="e", question=TaskQuestion("equations", 2, 0, 2, 0))
    with pytest.raises(InvalidRun, match="settings") as refused:
        start_run(by=by, agent=agent, plan=plan(equations, base))
    assert [fault.reason for fault in refused.value.faults] == ["equations has no criterion that a judge scores"]

    # One whose judge is calibrated goes to the engine with the server's address, and the key in its environment alone.
    server = Backend.objects.get(name="judges")
    server.key_variable = "JUDGE_API_KEY"
    settings.BACKEND_KEYS = [f"JUDGE_API_KEY={server.url}"]
    server.save()
    run = start_run(by=by, agent=agent, plan=plan(drawn, base))
    with pytest.raises(Permanent, match="needs the environment variable JUDGE_API_KEY"):
        judge_of(run)
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    told = judge_of(run)
    assert told == {
        **JUDGE,
        "url": server.url,
        "key_variable": "JUDGE_API_KEY",
        "timeout_seconds": server.timeout_seconds,
        "calibration": str(calibrated.id),
    }
    paths = EnginePaths(base={"path": "/base"}, train="data/train.jsonl", heldout="data/heldout.jsonl", judge=told)
    spec = RunSpec.model_validate(engine_spec(run.spec, run, run_id="judged", paths=paths))
    (tmp_path / "spec.json").write_text(spec.model_dump_json())
    assert spec.judge is not None and KEY not in (tmp_path / "spec.json").read_text()
    assert "JUDGE_API_KEY" not in engine_environment() and key_of_judge(tmp_path) == {"JUDGE_API_KEY": KEY}

    JudgeCalibrationFactory(agent=agent, verdict="drifted", reasons=["It errs otherwise."])
    with pytest.raises(Permanent, match="the judge cannot be asked: helpful is drifted: It errs otherwise"):
        judge_of(run)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("drifted", "the judge cannot be asked: helpful is drifted: It errs otherwise."),
        ("refused", "the judge cannot be asked: helpful is refused: 40 scored decisions have a label, 100 are needed."),
        ("removed", "the judge cannot be asked: helpful was never calibrated against people."),
        ("server", "the judge cannot be asked: There is no enabled server 'judges'."),
    ],
    ids=["drifted", "refused", "removed", "server"],
)
@pytest.mark.quick_cases(2)
def test_a_resumed_run_is_refused_as_a_first_start_would_be(
    drawn: Any, agent: Any, by: Any, settings: Any, monkeypatch: pytest.MonkeyPatch, lost: str, reason: str
) -> None:
    base = ModelVersionFactory(registered_model=agent.registered_model)
    BackendFactory(workspace=agent.workspace, name="judges")
    settings.BACKEND_URLS = ["http://127.0.0.1:9"]
    JudgeCalibrationFactory(agent=agent, verdict="calibrated", assessment={})
    run = start_run(by=by, agent=agent, plan=plan(drawn, base))
    # Its engine starts and ends, and the worker dies before it has told that.
    monkeypatch.setattr(
        "training.runs.launcher.ENGINE", (sys.executable, "-S", "-c", "raise SystemExit('out of memory')")
    )
    claimed = claim_job(run.job_id)
    assert claimed is not None
    with pytest.raises(EngineFailed, match="out of memory"):
        supervise_run(JobContext(claimed))
    Job.objects.filter(pk=run.job_id).update(lease_until=timezone.now() - dt.timedelta(minutes=1))
    assert sweep().taken_back == 1
    folder = settings.RUNS / str(run.id)
    before, events = files_of(folder), run.events.count()
    assert {"spec.json", "data/train.jsonl", "engine-1.log"} < before.keys()

    if lost == "server":
        Backend.objects.update(enabled=False)
    elif lost == "removed":
        JudgeCalibration.objects.all().delete()
    else:
        why = reason.partition(f"is {lost}: ")[2]
        JudgeCalibrationFactory(agent=agent, verdict=lost, reasons=[why])
    assert run_job(run.job_id) is JobState.DEAD
    run.refresh_from_db()
    assert (run.state, run.error, run.produced_version) == ("failed", reason, None)
    assert files_of(folder) == before  # no second engine
    assert run.events.count() == events + 1 and not Evaluation.objects.exists()
    assert list(ModelVersion.objects.all()) == [base]
    # Nor does the same run start again.
    with pytest.raises(InvalidRun):
        start_run(by=by, agent=agent, plan=plan(drawn, base))
    assert TrainingRun.objects.count() == 1
