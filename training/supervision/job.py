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

from decisions.errors import JudgeNotCalibrated
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.services import enqueue_job
from models_registry.artifacts.opening import artifact_path
from models_registry.errors import BackendUnavailable
from models_registry.models import Artifact, ArtifactKind, GateVerdict, ModelVersion
from models_registry.versions.services import NewVersion, locate_version, register_version, store_artifact
from training.engine.spec.methods import METHODS
from training.engine.spec.run_spec import RunSpec
from training.environments import recording
from training.evaluation.log_gate import LOG_FILE, LoggedDecision, judge_by_log, remove_log, write_log
from training.evaluation.plain_baseline import Words, compare_on_heldout, read_lessons, teach_words
from training.evaluation.scores import Scored, gate_version, score_pairs, score_predictions
from training.evaluation.suites.services import find_suites, make_score, save_score
from training.evaluation.tasks import score_tasks
from training.lineage.marks import mark_new_version, refuse_marked, remove_erased_samples
from training.models import DatasetSnapshot, Evaluation, RunEvent, RunMetric, SuiteScore, TrainingRun
from training.rows.parts import ROWS_FILE
from training.run_states import RunState
from training.runs.base_models import is_allowed_base
from training.runs.judges import place_judge
from training.runs.launcher import Finished, run_engine, write_atomically
from training.runs.reward_models import find_reward_models, find_reward_version
from training.runs.services import EnginePaths, engine_spec, move_run
from training.supervision.cards import card_of_run, find_base_name
from training.supervision.figures import keep_metrics
from workspaces.access.actors import system


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
    if run.base_model and not is_allowed_base(run.base_model):
        raise Permanent(f"{run.base_model} is no longer among the allowed base models")
    judge = judge_of(run)
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
        fraction, message = float(progress[-1]["fraction"]), str(progress[-1].get("message", ""))
        TrainingRun.objects.filter(id=run.id).update(progress=min(1.0, max(0.0, fraction)), message=message[:500])
        context.progress(fraction, message)


def publish(context: JobContext, run: TrainingRun, finished: Finished, log: Sequence[LoggedDecision] = ()) -> None:
    """Files first, then version, evaluation, gates and the run's end in one fenced transaction.

    `log`: the decisions that the engine was given to ask the new version about.
    """
    scored = _score(run, finished)
    by_log = _judge_log(run, finished, log)
    artifact = _store_files(run, finished, scored, by_log)
    words = teach_words(read_lessons(settings.RUNS / str(run.id)))
    suites = _score_suites(run, finished, words)
    plain = _compare(run, finished, words) if _is_policy(run) else None
    with context.fenced():
        version = _register(run, finished, artifact)
        _save_evaluation(run, finished, version, scored, plain)
        _save_verdicts(run, version, by_log, suites)
        _queue_recording(run, finished)
        _end_run(context, run, finished, version)


def _is_policy(run: TrainingRun) -> bool:
    return not METHODS[run.method].makes_reward_model


def _judge_log(run: TrainingRun, finished: Finished, log: Sequence[LoggedDecision]) -> GateVerdict | None:
    """The verdict on logged decisions; None of a reward model, which decides nothing."""
    if not _is_policy(run):
        return None
    answers = finished.result.log
    return judge_by_log(run, log, finished.folder / answers if answers is not None else None)


def _store_files(run: TrainingRun, finished: Finished, scored: Scored | None, by_log: GateVerdict | None) -> Artifact:
    """Stores the weights with their card."""
    result, base = finished.result, run.base_version
    is_adapter = result.output == "adapter"
    kind = ArtifactKind.ADAPTER if is_adapter else ArtifactKind.MODEL
    if not _is_policy(run):
        kind = ArtifactKind.REWARD_MODEL
    meta = {"run": str(run.id), "weights_sha256": result.weights_sha256, "base_model": find_base_name(run)}
    if is_adapter and base is not None:
        meta["base"] = base.weights.stored.digest
    assert result.output is not None
    return store_artifact(
        workspace=run.workspace,
        folder=finished.folder / result.output,
        kind=kind,
        meta=meta,
        texts=card_of_run(run, kind=kind, scores=scored.scores.get("trained") if scored else None, by_log=by_log),
    )


def _score_suites(run: TrainingRun, finished: Finished, words: Words | None) -> list[SuiteScore]:
    """Scores of the suites that the engine answered."""
    answers = finished.result.suites
    return [
        make_score(suite, finished.folder, answers[str(suite.id)], words)
        for suite in find_suites(run.agent)
        if str(suite.id) in answers
    ]


def _register(run: TrainingRun, finished: Finished, artifact: Artifact) -> ModelVersion:
    base = run.base_version
    is_adapter = finished.result.output == "adapter"
    assert run.agent.registered_model is not None
    return register_version(
        by=system(run.workspace),
        model=run.agent.registered_model,
        new=NewVersion(
            artifact=artifact,
            method=run.method,
            base=base.weights if is_adapter and base is not None else None,
            parent=base,
            description=f"{run.method} on {run.dataset}",
            metrics=finished.result.metrics,
        ),
    )


def _save_evaluation(
    run: TrainingRun, finished: Finished, version: ModelVersion, scored: Scored | None, plain: dict[str, Any] | None
) -> None:
    """Writes the evaluation on held-out rows, and the verdict of their gate; nothing where none were scored."""
    if scored is None or run.heldout is None:
        return
    result, base = finished.result, run.base_version
    Evaluation.objects.create(
        workspace=run.workspace,
        run=run,
        version=version,
        against=base if _is_policy(run) else None,
        dataset=run.heldout,
        rows=scored.rows,
        unanswered=result.unanswered,
        without_feedback=result.without_feedback,
        scores=scored.scores,
        differences=scored.differences,
        plain=plain,
    )
    if base is not None and not result.unanswered:
        gate_version(version=version, against=base, scored=scored)


def _save_verdicts(
    run: TrainingRun, version: ModelVersion, by_log: GateVerdict | None, suites: Sequence[SuiteScore]
) -> None:
    if by_log is not None:
        by_log.version = version
        by_log.save()
    for score in suites:
        save_score(score, version, run)


def _queue_recording(run: TrainingRun, finished: Finished) -> None:
    """Queues the recording of the run's episodes, where it has some."""
    if finished.result.episodes is not None:
        enqueue_job(kind=recording.KIND, workspace=run.workspace, payload={"run": str(run.id)})


def _end_run(context: JobContext, run: TrainingRun, finished: Finished, version: ModelVersion) -> None:
    mark_new_version(run, version)
    kept = keep_metrics(finished.result)
    move_run(run, RunState.SUCCEEDED, produced_version=version, progress=1.0, metrics=kept, message=str(version))
    context.complete({"version": str(version), "run": str(run.id)})


def _compare(run: TrainingRun, finished: Finished, words: Words | None) -> dict[str, Any] | None:
    if words is None or finished.result.predictions is None:
        return None
    folder, told = finished.folder, finished.result
    rankings = folder / told.rankings if told.rankings is not None else None
    return compare_on_heldout(words, settings.RUNS / str(run.id), folder / str(told.predictions), rankings)


def _score(run: TrainingRun, finished: Finished) -> Scored | None:
    if finished.result.predictions is None:
        return None
    if METHODS[run.method].makes_reward_model:
        return score_pairs(finished.folder / finished.result.predictions)

    if run.heldout is not None and run.heldout.is_of_tasks:
        return score_tasks(finished.folder / finished.result.predictions)
    asked = RunSpec.model_validate_json((finished.folder.parent.parent / "spec.json").read_text()).evaluate
    return score_predictions(
        finished.folder / finished.result.predictions,
        finished.result,
        spec=current_reward_spec(run.agent),
        free_rows=asked.free_rows if asked is not None else 0,
    )
