"""The job that carries a run from queued to a registered, evaluated version."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Greatest

from decisions.errors import JudgeNotCalibrated
from jobs.context import JobContext
from jobs.errors import Permanent
from models_registry.artifacts.opening import artifact_path
from models_registry.errors import BackendUnavailable
from models_registry.versions.services import locate_version
from training.engine.spec.methods import METHODS
from training.evaluation.log_gate import LOG_FILE, remove_log, write_log
from training.evaluation.suites.services import find_suites
from training.lineage.marks import refuse_marked, remove_erased_samples
from training.models import DatasetSnapshot, RunEvent, RunMetric, TrainingRun
from training.rows.parts import ROWS_FILE
from training.run_states import RunState
from training.runs.base_models import is_allowed_base
from training.runs.classifiers import encoder_of, find_encoder
from training.runs.judges import place_judge
from training.runs.launcher import run_engine, write_atomically
from training.runs.reward_models import find_reward_models, find_reward_version
from training.runs.services import EnginePaths, engine_spec, move_run
from training.supervision.named_bases import keep_named_base
from training.supervision.publishing import publish


def supervise_run(context: JobContext) -> dict[str, Any] | None:
    """Idempotent: a run that is over is left alone; one that was lost resumes from its newest checkpoint.

    Raises Permanent for a dataset of which rows were erased since the run was queued, for a base model that is not
    allowed any more, and, in every attempt, for a judge that may not be asked any more.
    """
    run = TrainingRun.objects.select_related(
        "agent__registered_model",
        "base_version__artifact",
        "base_version__base__artifact",
        "dataset__artifact",
        "workspace",
    ).get(id=context.payload["run_id"])
    if run.is_terminal:
        return {"state": run.state}
    refuse_marked(run)
    if run.base_version is None and not is_allowed_base(run.base_model):
        raise Permanent(f"{run.base_model} is no longer among the allowed base models")
    judge = judge_of(run)
    keep_named_base(context, run)
    run_dir = settings.RUNS / str(run.id)
    prepare_folder(run, run_dir, judge)
    with context.fenced():
        move_run(run, RunState.RUNNING)
    log = [] if METHODS[run.method].makes_reward_model else write_log(run, run_dir)

    def sink(events: Sequence[Mapping[str, Any]]) -> None:
        store_events(run, context, events)

    try:
        finished = run_engine(context, run_dir, sink=sink)
    finally:
        remove_log(run.id)
        remove_erased_samples(run)
    publish(context, run, finished, log)
    return None


def prepare_folder(run: TrainingRun, run_dir: Path, judge: Mapping[str, Any] | None) -> None:
    """spec.json and data/, written once; a resumed attempt finds them as they were."""
    if (run_dir / "spec.json").exists():
        return
    (run_dir / "data").mkdir(parents=True, exist_ok=True)
    is_policy = not METHODS[run.method].makes_reward_model
    suites: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for suite in find_suites(run.agent) if is_policy else ():
        if (placed := _place(suite.dataset, run_dir, f"suite-{suite.id}")) is not None:
            suites[suite.is_of_texts][str(suite.id)] = placed
    paths = EnginePaths(
        base=locate_version(run.base_version) if run.base_version else {"path": run.base_model},
        train=_place(run.dataset, run_dir, "train") or "",
        heldout=_place(run.heldout, run_dir, "heldout"),
        replay=_place(run.replay, run_dir, "replay"),
        log=LOG_FILE if is_policy else None,
        suites=suites[False],
        text_suites=suites[True],
        reward_model=source_of_reward_model(run),
        judge=judge,
        encoder=folder_of_encoder(run),
    )
    spec = engine_spec(run.spec, run, run_id=str(run.id), paths=paths)
    write_atomically(run_dir / "spec.json", json.dumps(spec, indent=2))


def source_of_reward_model(run: TrainingRun) -> dict[str, str] | None:
    """Where the version is that the run's reward names, as the engine's ModelSource; None without one. Raises Permanent
    where it is no more."""
    named = find_reward_version(run.spec)
    if named is None:
        return None
    found = find_reward_models(run.workspace).filter(id=named).first()
    if found is None or found.marked_at is not None or found.stored.removed_at is not None:
        raise Permanent(f"the reward model {named} no longer exists, or learnt from rows that were erased")
    return locate_version(found)


def folder_of_encoder(run: TrainingRun) -> str | None:
    """Where the encoder is that the run's settings name; None without one. Raises Permanent where it is no more."""
    named = find_encoder(run.spec)
    if named is None:
        return None
    encoder = encoder_of(run.workspace, run.spec)
    if encoder is None:
        raise Permanent(f"the sentence encoder {named} no longer exists")
    return locate_version(encoder)["path"]


def judge_of(run: TrainingRun) -> dict[str, Any] | None:
    """The run's judge as the engine asks it; None without one. Raises Permanent where it may not be asked any more."""
    if (judge := run.spec.get("judge")) is None:
        return None
    try:
        return place_judge(run.agent, judge)
    except (JudgeNotCalibrated, BackendUnavailable) as error:
        raise Permanent(f"the judge cannot be asked: {error.message}") from error


def _place(dataset: DatasetSnapshot | None, run_dir: Path, name: str) -> str | None:
    """Links (or copies) a dataset's rows into the run's folder; the path relative to it."""
    if dataset is None:
        return None
    source = artifact_path(dataset.artifact.digest) / ROWS_FILE
    target = run_dir / "data" / f"{name}.jsonl"
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system: a copy does as well
        shutil.copyfile(source, target)
    return f"data/{name}.jsonl"


def store_events(run: TrainingRun, context: JobContext, events: Sequence[Mapping[str, Any]]) -> None:
    """Events, curves and progress of one attempt, in the caller's fenced transaction."""
    RunEvent.objects.bulk_create(
        [
            RunEvent(
                run=run,
                attempt=context.fence,
                sequence=event["seq"],
                kind=event["kind"],
                details={key: value for key, value in event.items() if key not in {"seq", "kind", "at"}},
                at=dt.datetime.fromisoformat(event["at"]),
            )
            for event in events
        ],
        ignore_conflicts=True,
    )
    RunMetric.objects.bulk_create(
        [
            RunMetric(run=run, attempt=context.fence, step=event["step"], name=name, value=value)
            for event in events
            if event["kind"] == "metric"
            for name, value in event["values"].items()
        ],
        ignore_conflicts=True,
    )
    progress = [event for event in events if event["kind"] == "progress"]
    if progress:
        share, message = float(progress[-1]["share"]), str(progress[-1].get("message", ""))
        # An attempt that goes on begins at its checkpoint, behind what the run has shown.
        reached = Greatest(F("progress"), min(1.0, max(0.0, share)))
        TrainingRun.objects.filter(id=run.id).update(progress=reached, message=message[:500])
        context.progress(share, message)
